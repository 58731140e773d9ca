"""Splits a long text into a list of small records, so that it can be paged, filtered and searched like a list.

Each function has two call forms. With a value it answers at once: `chunk_text(text, chunk_size=2000)`. With options
only it gives a callable for a producer's `transform=`: `chunk_text(chunk_size=2000)`. A value that is no string comes
back unchanged, and "" gives []. Offsets and lengths count code points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, overload

Records = list[dict[str, Any]]
Transform = Callable[[Any], Any]


class _NotGiven(Enum):
    NOT_GIVEN = "no value given"


_NOT_GIVEN: Final = _NotGiven.NOT_GIVEN


@overload
def chunk_text(text: str, chunk_size: int = 1000, overlap: int = 200) -> Records: ...
@overload
def chunk_text(text: Any, chunk_size: int = 1000, overlap: int = 200) -> Any: ...
@overload
def chunk_text(*, chunk_size: int = 1000, overlap: int = 200) -> Transform: ...
def chunk_text(text: Any = _NOT_GIVEN, chunk_size: int = 1000, overlap: int = 200) -> Any:
    """Pieces of about equal length: `[{"chunk_index", "text", "char_offset"}]`.

    A chunk ends after a space where its last tenth has one, so most chunks end on whole words. The last chunk is the
    first that reaches the end of the text.

    Args:
        text: What to split; left out, a transform with these options is returned.
        chunk_size: Code points of a chunk at most.
        overlap: Code points that a chunk shares with the one before.

    Raises:
        ValueError: chunk_size is below 1, overlap is below 0 or not below chunk_size, or one is no whole number.
    """
    _check_whole("chunk_size", chunk_size, 1)
    _check_whole("overlap", overlap, 0)
    if overlap >= chunk_size:
        raise ValueError(f"overlap must be below chunk_size ({chunk_size}), not {overlap}: pass a smaller overlap")
    return _applied(partial(_chunks, chunk_size=chunk_size, overlap=overlap), text)


@overload
def split_sections(text: str, separator: str = "\n\n", strip: bool = True, min_length: int = 1) -> Records: ...
@overload
def split_sections(text: Any, separator: str = "\n\n", strip: bool = True, min_length: int = 1) -> Any: ...
@overload
def split_sections(*, separator: str = "\n\n", strip: bool = True, min_length: int = 1) -> Transform: ...
def split_sections(text: Any = _NOT_GIVEN, separator: str = "\n\n", strip: bool = True, min_length: int = 1) -> Any:
    """What stands between separators: `[{"section_index", "text", "char_offset"}]`.

    Args:
        text: What to split; left out, a transform with these options is returned.
        separator: The exact text between two sections; it belongs to neither.
        strip: Whether sections lose the whitespace at their ends; `char_offset` is where the rest begins.
        min_length: Code points of a section at least, after stripping; shorter ones are dropped and not numbered.

    Raises:
        ValueError: separator is empty or no string, strip is no bool, or min_length is no whole number of at least 0.
    """
    if not isinstance(separator, str) or not separator:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"separator must be a string that is not empty, not {separator!r}")
    if not isinstance(strip, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"strip must be True or False, not {strip!r}")
    _check_whole("min_length", min_length, 0)
    return _applied(partial(_sections, separator=separator, strip=strip, min_length=min_length), text)


@overload
def split_markdown_sections(text: str) -> Records: ...
@overload
def split_markdown_sections(text: Any) -> Any: ...
@overload
def split_markdown_sections() -> Transform: ...
def split_markdown_sections(text: Any = _NOT_GIVEN) -> Any:
    r"""A section for each heading: `[{"section_index", "heading", "level", "text", "char_offset"}]`.

    Headings are `# Title` (level 1 to 6), and a paragraph line underlined with `===` (level 1) or `---` (level 2).
    Those in code blocks do not count. `text` is what follows the heading up to the next one of any level, without
    blank lines at its ends, and may be empty; `char_offset` is where the heading's line begins. Text before the first
    heading has the heading "(preamble)", a text without headings is one "(document)": both have level 0 and the
    offset of their text. A blank text gives [].

    Args:
        text: What to split; left out, a transform is returned.
    """
    return _applied(_markdown_sections, text)


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _applied(split: Callable[[str], Records], value: Any) -> Any:
    return partial(_split_if_text, split) if value is _NOT_GIVEN else _split_if_text(split, value)


def _split_if_text(split: Callable[[str], Records], value: Any) -> Any:
    return split(value) if isinstance(value, str) else value


def _chunks(text: str, chunk_size: int, overlap: int) -> Records:
    chunks: Records = []
    start = end = 0
    while end < len(text):
        end = _chunk_end(text, start, chunk_size, overlap)
        chunks.append({"chunk_index": len(chunks), "text": text[start:end], "char_offset": start})
        start = end - overlap
    return chunks


def _chunk_end(text: str, start: int, chunk_size: int, overlap: int) -> int:
    end = start + chunk_size
    if end >= len(text):
        return len(text)
    if text[end].isspace():
        return end
    # A chunk that ended within its overlap would let the next one start no further on.
    earliest = max(end - chunk_size // 10, start + overlap)
    for position in range(end - 1, earliest - 1, -1):
        if text[position].isspace():
            return position + 1
    return end


def _sections(text: str, separator: str, strip: bool, min_length: int) -> Records:
    sections: Records = []
    start = 0
    for piece in text.split(separator) if text else ():
        kept = piece.strip() if strip else piece
        if len(kept) >= min_length:
            offset = start + (len(piece) - len(piece.lstrip()) if strip else 0)
            sections.append({"section_index": len(sections), "text": kept, "char_offset": offset})
        start += len(piece) + len(separator)
    return sections


# One match is one line, or a run of blank lines; the name of the outermost group is the kind of line. Repeats of
# single characters are possessive and repeats of groups are bounded, so no line is read over and over.
_LINE = re.compile(
    r"""
    (?P<blank> \s* [\r\n] | \s++ \Z )
  | (?: (?P<indented> [ ]{0,3}+ \t | [ ]{4} )
      | [ ]{0,3}+ (?:
          (?P<fence> (?: (?: [-+*] | [0-9]{1,9}+ [.)] ) [ ]{1,4}+ ){0,9}
                     (?P<marks> `{3,}+ (?! [^`\r\n]*+ ` ) | ~{3,}+ ) )
        | (?P<hashes> \#{1,6}+ (?! [^ \t\r\n] ) )
        | (?P<underline> (?: =++ | -++ ) [ \t]*+ (?! [^\r\n] ) )
        | (?P<rule> (?: -[ \t]*+ -[ \t]*+ -[- \t]*+ | _[ \t]*+ _[ \t]*+ _[_ \t]*+ | \*[ \t]*+ \*[ \t]*+ \*[* \t]*+ )
                    (?! [^\r\n] ) )
        | (?P<nested> > | (?: [-+*] | [0-9]{1,9}+ [.)] ) (?! [^ \t\r\n] ) )
        | (?P<words> [^\r\n] )
      )
    ) [^\r\n]*+ (?: \r\n? | \n )?
    """,
    re.VERBOSE,
)
_BLANK_LINES = re.compile(r"(?:\s*[\r\n])?")


class _Heading(NamedTuple):
    title: str
    level: int
    start: int
    body_start: int


class _Fence(NamedTuple):
    """An open code block. `margin` is above 0 where it began behind a list marker: the block ends with the item."""

    marks: str
    margin: int

    def is_left_by(self, line: str) -> bool:
        return self.margin > 0 and _indent(line) < self.margin and not line.isspace()

    def is_closed_by(self, line: str) -> bool:
        marks = line.strip(" \t\r\n")
        indent = _indent(line)
        return indent <= self.margin + 3 and line.startswith(self.marks, indent) and not marks.strip(self.marks[0])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _lines_outside_fences(text: str) -> Iterator[re.Match[str]]:
    """The lines that are not within a fenced code block; the line that opens one is among them."""
    fence: _Fence | None = None
    for line in _LINE.finditer(text):
        if fence is not None and not fence.is_left_by(line.group()):
            if fence.is_closed_by(line.group()):
                fence = None
            continue
        fence = _opened_fence(line) if line.lastgroup == "fence" else None
        yield line


def _opened_fence(line: re.Match[str]) -> _Fence:
    behind_marker = line.start("fence") < line.start("marks")
    return _Fence(line["marks"], line.start("marks") - line.start() if behind_marker else 0)


def _headings(text: str) -> Iterator[_Heading]:
    above: re.Match[str] | None = None  # the paragraph line that an underline would make a heading
    nested = False  # in a paragraph of a list item or a quote, which an underline from outside does not reach
    for line in _lines_outside_fences(text):
        kind = line.lastgroup
        if kind == "underline":
            if above is not None:
                yield _underlined_heading(above, line)
                above = None
                continue
            kind = _kind_of_lone_underline(line)
        elif kind == "hashes":
            yield _hash_heading(line)
        if kind == "words" or (kind == "indented" and above is not None):
            above = None if nested else line
        elif kind != "indented":
            above, nested = None, kind == "nested"


def _kind_of_lone_underline(line: re.Match[str]) -> str:
    """A line of `=` or `-` under no paragraph: words, but for `---` (a rule) and `-` (an empty list item)."""
    return "words" if line["underline"].strip() == "--" or "=" in line["underline"] else "rule"


def _underlined_heading(title: re.Match[str], underline: re.Match[str]) -> _Heading:
    level = 1 if "=" in underline["underline"] else 2
    return _Heading(title.group().strip(), level, title.start(), underline.end())


def _hash_heading(line: re.Match[str]) -> _Heading:
    title = line.string[line.end("hashes") : line.end()].strip()
    unclosed = title.rstrip("#")
    if not unclosed or unclosed[-1] in " \t":
        title = unclosed.rstrip()
    return _Heading(title, len(line["hashes"]), line.start(), line.end())


def _markdown_sections(text: str) -> Records:
    headings = list(_headings(text))
    starts = [heading.start for heading in headings] + [len(text)]
    sections: Records = []
    offset, opening = _body(text, 0, starts[0])
    if opening:
        title = "(preamble)" if headings else "(document)"
        sections.append(_section(0, title, 0, opening, offset))
    for heading, end in zip(headings, starts[1:], strict=True):
        _, body = _body(text, heading.body_start, end)
        sections.append(_section(len(sections), heading.title, heading.level, body, heading.start))
    return sections


def _section(index: int, heading: str, level: int, text: str, offset: int) -> dict[str, Any]:
    return {"section_index": index, "heading": heading, "level": level, "text": text, "char_offset": offset}


def _body(text: str, start: int, end: int) -> tuple[int, str]:
    """Where the first line that is not blank begins, and the text from there to the end of the last such line."""
    blank = _BLANK_LINES.match(text, start, end)
    first = blank.end() if blank else start
    body = text[first:end]
    last = len(body.rstrip())
    while 0 < last < len(body) and body[last] not in "\r\n":
        last += 1
    return first, body[:last]
