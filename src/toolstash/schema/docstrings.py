"""Reads a docstring in Google, Sphinx or NumPy style: what the function does, and what each parameter means."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import docstring_parser

from toolstash.schema.resolve import function_behind

_SECTIONS: Final = (
    r"Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters"
    r"|Returns?|Yields?|Raises|Exceptions?|Except"
)
_GOOGLE_HEADING: Final = re.compile(rf"(?:{_SECTIONS}):\s*")
_NUMPY_HEADING: Final = re.compile(rf"(?:{_SECTIONS})\s*")
_PARAMETERS_HEADING: Final = re.compile(r"^(?:Args|Arguments|Parameters|Params):?\s*$", re.MULTILINE)
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_SPHINX_FIELD: Final = re.compile(
    r"[:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|yields?|raises?|except|exception)\b[^:]*:"
)


@dataclass(frozen=True, slots=True)
class DocText:
    """A docstring's parts; all empty for a function without one.

    Attributes:
        summary: The first paragraph as one line.
        description: The text without its sections on parameters, results and exceptions.
        parameters: Parameter name → its text as one line.
    """

    summary: str = ""
    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(function: Callable[..., Any]) -> DocText:
    """The parts of the function's docstring. A docstring that breaks its style's rules is all description."""
    text = _text_of(function)
    parameters = _parameter_texts(text)
    is_broken = not parameters and _PARAMETERS_HEADING.search(text) is not None
    description = text if is_broken else _without_sections(text)
    return DocText(_one_line(description.split("\n\n")[0]), description, parameters)


def _text_of(function: Any) -> str:
    # An object without a text of its own shows its class's: a partial, say, would be described as one.
    has_own_text = inspect.isroutine(function) or hasattr(function, "__wrapped__")
    documented = function if has_own_text else function_behind(function)
    return inspect.cleandoc(getattr(documented, "__doc__", None) or "")


def _parameter_texts(text: str) -> dict[str, str]:
    try:
        parsed = docstring_parser.parse(text)
    except Exception:
        return {}
    texts: dict[str, str] = {}
    for parameter in parsed.params:
        # A paragraph after the parameter's own belongs to a section that the parser does not know.
        meaning = _one_line((parameter.description or "").split("\n\n")[0])
        for name in parameter.arg_name.split(","):
            texts.setdefault(name.strip().lstrip("*"), meaning)
    return {name: meaning for name, meaning in texts.items() if name and meaning}


def _without_sections(text: str) -> str:
    lines = text.split("\n")
    kept: list[str] = []
    position = 0
    while position < len(lines):
        after = _end_of_section(lines, position)
        if after == position:
            kept.append(lines[position].rstrip())
            after += 1
        position = after
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _end_of_section(lines: list[str], start: int) -> int:
    """Where the section that begins at `start` ends; `start` itself where none begins."""
    line, following = lines[start], lines[start + 1 : start + 2]
    if _NUMPY_HEADING.fullmatch(line) and following and _UNDERLINE.fullmatch(following[0]):
        return _next_underlined(lines, start + 2)
    if _GOOGLE_HEADING.fullmatch(line):
        return _next_at_margin(lines, start + 1)
    if _SPHINX_FIELD.match(line):
        return _next_after_field(lines, start + 1)
    return start


def _next_underlined(lines: list[str], start: int) -> int:
    for position in range(start, len(lines) - 1):
        if lines[position].strip() and _UNDERLINE.fullmatch(lines[position + 1]):
            return position
    return len(lines)


def _next_at_margin(lines: list[str], start: int) -> int:
    ends = (at for at in range(start, len(lines)) if lines[at] and not lines[at][0].isspace())
    return next(ends, len(lines))


def _next_after_field(lines: list[str], start: int) -> int:
    ends = (at for at in range(start, len(lines)) if not lines[at].strip() or not lines[at][0].isspace())
    return next(ends, len(lines))


def _one_line(text: str) -> str:
    return " ".join(text.split())
