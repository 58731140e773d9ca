"""A function as a tool: its name, its text, and its parameters with their schemas and converters."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from toolstash.schema.annotations import as_choice
from toolstash.schema.coerce import coerce_arguments, parse_arguments
from toolstash.schema.dialect import choice_text
from toolstash.schema.docstrings import DocText, read_docstring
from toolstash.schema.hints import json_schema_of
from toolstash.schema.parameter import Parameter
from toolstash.schema.resolve import function_behind, resolved_hints
from toolstash.schema.wording import STANDARD_DESCRIPTIONS

_PARAMETER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """What a model is told of a function. The same function gives the same bytes in every process.

    Attributes:
        name: The tool's name.
        description: The docstring without its sections on parameters and results, then the note.
        summary: The docstring's first paragraph on one line.
        parameters: In the function's order, hidden and variadic ones left out.
    """

    name: str
    description: str
    summary: str
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        hidden: Collection[str] = (),
        schema_extra: Mapping[str, Mapping[str, Any]] | None = None,
        note: str = "",
    ) -> FunctionSchema:
        """Reads a function, sync or async, a method, a partial or a callable object.

        Args:
            function: Its hints may be text; its docstring Google, Sphinx or NumPy style.
            name: The function's own name if None.
            hidden: Parameters that the model never sees.
            schema_extra: Parameter name → keys that are laid over its schema.
            note: A paragraph that ends the description.

        Raises:
            ValueError: `schema_extra` names a parameter that the tool does not have, or a parameter's name is none
                that model APIs take.
        """
        name = name or function_name(function)
        text = read_docstring(function)
        extra = schema_extra or {}
        _refuse_positional_only(function, name)
        shown = [p for p in _signature(function) if p.name not in hidden and p.kind not in _VARIADIC]
        _refuse_names([parameter.name for parameter in shown], name)
        _refuse_unknown(extra, [parameter.name for parameter in shown], name)
        hints = resolved_hints(function)
        parameters = [_parameter(p, hints.get(p.name, Any), text, extra.get(p.name, {})) for p in shown]
        summary = text.summary or f"{name.replace('_', ' ').strip().capitalize()}."
        description = "\n\n".join(filter(None, (text.description or summary, note.strip())))
        return cls(name, description, summary, tuple(parameters))

    def checked(self, raw: Any) -> dict[str, Any]:
        """A model's arguments as the function takes them.

        Args:
            raw: A mapping, or JSON text of an object; None for no arguments.

        Raises:
            InvalidArgumentError: They do not fit; see `parse_arguments` and `coerce_arguments`.
        """
        return coerce_arguments(self.parameters, parse_arguments(raw))

    def to_openai(
        self, *, enums: Mapping[str, Sequence[Any]] | None = None, leave_out: Collection[str] = ()
    ) -> dict[str, Any]:
        """The schema in OpenAI's function form, a new dict every time.

        Args:
            enums: Parameter name → the only values it may take. Names that the tool lacks are ignored.
            leave_out: Parameters that are not shown.
        """
        shown = [parameter for parameter in self.parameters if parameter.name not in leave_out]
        properties = {parameter.name: copy.deepcopy(dict(parameter.schema)) for parameter in shown}
        for name, values in (enums or {}).items():
            if name in properties:
                properties[name]["enum"] = list(values)
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [parameter.name for parameter in shown if parameter.required],
        }
        return self._in_openai_form(parameters)

    def _in_openai_form(self, parameters: dict[str, Any]) -> dict[str, Any]:
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def _signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def function_name(function: Callable[..., Any]) -> str:
    """What a function, a method, a partial or a callable object is called."""
    behind = function_behind(function)
    return behind.__name__ if behind.__name__ != "__call__" else type(function).__name__


def _refuse_positional_only(function: Callable[..., Any], owner: str) -> None:
    names = [p.name for p in _signature(function) if p.kind is inspect.Parameter.POSITIONAL_ONLY]
    if names:
        raise TypeError(f"{owner}() takes {', '.join(names)} by position only, but a model passes arguments by name")


def _refuse_names(names: list[str], owner: str) -> None:
    # One such name makes Anthropic refuse a whole request, whichever tool is called.
    refused = [name for name in names if not _PARAMETER_NAME.fullmatch(name)]
    if refused:
        raise ValueError(
            f"{owner}() has a parameter '{refused[0]:.80}'; "
            "model APIs take names of up to 64 characters of A-Z a-z 0-9 _"
        )


def _refuse_unknown(extra: Mapping[str, Any], known: list[str], owner: str) -> None:
    unknown = [name for name in extra if name not in known]
    if unknown:
        raise ValueError(
            f"schema_extra of {owner!r} names {', '.join(map(repr, unknown))}, "
            f"but its parameters are: {', '.join(known) or 'none'}"
        )


def _parameter(given: inspect.Parameter, annotation: Any, text: DocText, extra: Mapping[str, Any]) -> Parameter:
    if type(given.default).__name__ == "FieldInfo":
        raise TypeError(
            f"the default of {given.name!r} is pydantic's Field(…), which is read in models only: write the value"
        )
    required = given.default is inspect.Parameter.empty
    schema = json_schema_of(annotation)
    description = (
        text.parameters.get(given.name) or schema.get("description") or STANDARD_DESCRIPTIONS.get(given.name, "")
    )
    schema = schema | ({"description": description} if description else {}) | _default_of(given, schema) | dict(extra)
    return Parameter(
        given.name, annotation, schema, required, None if required else given.default, schema.get("description", "")
    )


def _default_of(given: inspect.Parameter, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The default, where it is a JSON scalar; an Enum member counts as its value, a choice is written as its text."""
    default: Any = as_choice(given.default) if isinstance(given.default, Enum) else given.default
    is_finite = not isinstance(default, float) or default - default == 0
    if type(default) not in (str, int, float, bool) or not is_finite:
        return {}
    return {"default": choice_text(default) if "enum" in schema else default}
