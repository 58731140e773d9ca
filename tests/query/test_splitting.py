"""A long text becomes a list of small records whose offsets are exact, at once or as a producer's transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstash.query.splitting import chunk_text, split_markdown_sections, split_sections

NON_STRINGS: list[Any] = [None, 0, 12, True, 1.5, b"bytes", ["a\n\nb"], {"text": "# a"}, ("x",), object()]
MARKDOWN_LINES = st.sampled_from(
    ["# One", "## Two ##", "#", "Title", "===", "---", "-", "", "  ", "words here", "    code", "\t# code", "> quote"]
    + ["- item", "1. item", "- ```", "```", "~~~", "````py", "***", "#no", "   ### Three", "\f", "é\u2028# x"]
)
MARKDOWN = st.lists(st.tuples(MARKDOWN_LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=12).map(
    lambda lines: "".join(line + end for line, end in lines)
)


def headings(text: str) -> list[tuple[int, str]]:
    """Level and heading of each section, without preamble and whole documents."""
    return [(section["level"], section["heading"]) for section in split_markdown_sections(text) if section["level"]]


def texts(records: list[dict[str, Any]]) -> list[str]:
    return [record["text"] for record in records]


# Call forms


@pytest.mark.parametrize(
    ("at_once", "transform"),
    [
        (lambda text: chunk_text(text, 7, 2), chunk_text(chunk_size=7, overlap=2)),
        (lambda text: chunk_text(text), chunk_text()),
        (lambda text: split_sections(text, ",", False, 0), split_sections(separator=",", strip=False, min_length=0)),
        (lambda text: split_sections(text), split_sections()),
        (lambda text: split_markdown_sections(text), split_markdown_sections()),
    ],
)
def test_both_forms_give_the_same(at_once: Callable[[Any], Any], transform: Callable[[Any], Any]) -> None:
    text = "# Head\n\none, two,, three\n\n\n\n  four"
    assert at_once(text) == transform(text)
    assert len(transform(text)) > 0
    assert at_once("") == transform("") == []


@pytest.mark.parametrize("value", NON_STRINGS)
@pytest.mark.parametrize("function", [chunk_text, split_sections, split_markdown_sections])
def test_a_value_that_is_no_string_comes_back_as_it_is(function: Any, value: Any) -> None:
    assert function(value) is value
    assert function()(value) is value


@pytest.mark.parametrize("function", [chunk_text, split_sections, split_markdown_sections])
def test_the_function_itself_is_a_transform_with_the_defaults(function: Any) -> None:
    text = "some words\n\n" * 200
    assert list(map(function, [text])) == [function()(text)]


@pytest.mark.parametrize("first", [(), ("some text",), (None,)])
@pytest.mark.parametrize(
    "options",
    [{"chunk_size": value} for value in (0, -5, 200, 500.0, "500", None)]
    + [{"overlap": value} for value in (-1, False, 1.0, None, 1000)]
    + [{"chunk_size": True, "overlap": 0}, {"chunk_size": 5, "overlap": 6}],
)
def test_chunk_options_are_checked_at_once(first: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="chunk_size|overlap"):
        chunk_text(*first, **options)


@pytest.mark.parametrize("first", [(), ("some text",), (None,)])
@pytest.mark.parametrize(
    ("option", "value"),
    [("separator", ""), ("separator", None), ("separator", b"\n"), ("separator", 1), ("strip", 1), ("strip", None)]
    + [("min_length", -1), ("min_length", True), ("min_length", 1.0), ("min_length", "1"), ("min_length", None)],
)
def test_section_options_are_checked_at_once(first: tuple[Any, ...], option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        split_sections(*first, **{option: value})


# Chunks


def test_chunks_step_by_size_less_overlap() -> None:
    assert chunk_text("abcdefgh", 4, 1) == [
        {"chunk_index": 0, "text": "abcd", "char_offset": 0},
        {"chunk_index": 1, "text": "defg", "char_offset": 3},
        {"chunk_index": 2, "text": "gh", "char_offset": 6},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", ["a"]), ("abcd", ["abcd"]), ("abcdefg", ["abcd", "defg"]), ("abcdefgh", ["abcd", "defg", "gh"])],
)
def test_the_last_chunk_is_the_first_that_reaches_the_end(text: str, expected: list[str]) -> None:
    assert texts(chunk_text(text, 4, 1)) == expected


def test_a_chunk_ends_after_a_space_in_its_last_tenth() -> None:
    text = "a" * 18 + " " + "b" * 20
    first, second = chunk_text(text, 20, 5)[:2]
    assert first["text"] == "a" * 18 + " "
    assert second["char_offset"] == 19 - 5


@pytest.mark.parametrize("text", ["a" * 17 + " " + "b" * 30, "a" * 20 + " " + "b" * 30, "a" * 50])
def test_a_chunk_is_full_where_no_word_is_cut_or_the_space_is_too_early(text: str) -> None:
    assert chunk_text(text, 20, 0)[0]["text"] == text[:20]


def test_a_space_within_the_overlap_does_not_stop_progress() -> None:
    text = "a" * 91 + " " + "b" * 200
    offsets = [chunk["char_offset"] for chunk in chunk_text(text, 100, 92)]
    assert offsets == sorted(set(offsets))
    assert chunk_text(text, 100, 92)[0]["text"] == text[:100]


@given(
    text=st.one_of(st.text(max_size=300), st.text(alphabet="ab \n", max_size=300)),
    chunk_size=st.integers(1, 60),
    data=st.data(),
)
def test_chunks_are_exact_cover_the_text_and_move_on(text: str, chunk_size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, chunk_size - 1))
    chunks = chunk_text(text, chunk_size, overlap)
    end = 0
    start = -1
    for index, chunk in enumerate(chunks):
        assert chunk["chunk_index"] == index
        assert start < chunk["char_offset"]
        assert chunk["char_offset"] == (max(end - overlap, 0) if index else 0)
        start, before = chunk["char_offset"], end
        end = start + len(chunk["text"])
        assert 0 < len(chunk["text"]) <= chunk_size
        assert text[start:end] == chunk["text"]
        assert before < end, "no chunk lies wholly within the one before"
    assert end == len(text)


@given(text=st.text(alphabet="ab \n", max_size=400), step=st.integers(1, 20), overlap=st.integers(0, 40))
def test_cuts_at_spaces_at_most_double_the_number_of_chunks(text: str, step: int, overlap: int) -> None:
    assert len(chunk_text(text, step + overlap, overlap)) <= 2 * (len(text) // step + 1)


# Sections between separators


def test_sections_are_stripped_numbered_and_say_where_they_begin() -> None:
    assert split_sections("\n one\n\n\n\n\ttwo  \n\n ") == [
        {"section_index": 0, "text": "one", "char_offset": 2},
        {"section_index": 1, "text": "two", "char_offset": 10},
    ]


def test_sections_keep_their_spaces_without_strip() -> None:
    assert split_sections(" a | |b", separator="|", strip=False) == [
        {"section_index": 0, "text": " a ", "char_offset": 0},
        {"section_index": 1, "text": " ", "char_offset": 4},
        {"section_index": 2, "text": "b", "char_offset": 6},
    ]


def test_short_sections_are_dropped_and_not_numbered() -> None:
    sections = split_sections("aaa--b  --cc--dddd", separator="--", min_length=3)
    assert [(section["section_index"], section["text"]) for section in sections] == [(0, "aaa"), (1, "dddd")]


def test_min_length_zero_keeps_empty_sections() -> None:
    assert texts(split_sections("a,,  ,b", separator=",", min_length=0)) == ["a", "", "", "b"]


def test_a_separator_is_no_pattern() -> None:
    assert texts(split_sections("a.b.*c", separator=".*")) == ["a.b", "c"]


@given(
    text=st.text(alphabet="ab \n-\u3000", max_size=120),
    separator=st.text(alphabet="ab \n-", min_size=1, max_size=3),
    strip=st.booleans(),
    min_length=st.integers(0, 4),
)
def test_sections_are_exact_and_complete(text: str, separator: str, strip: bool, min_length: int) -> None:
    sections = split_sections(text, separator, strip, min_length)
    pieces = [piece.strip() if strip else piece for piece in text.split(separator)] if text else []
    assert texts(sections) == [piece for piece in pieces if len(piece) >= min_length]
    for index, section in enumerate(sections):
        start = section["char_offset"]
        assert section["section_index"] == index
        assert text[start : start + len(section["text"])] == section["text"]


# Markdown sections


def test_markdown_gives_a_section_for_each_heading() -> None:
    text = "\nIntro.\n\n# One\n\nBody one.\n  second line  \n\n## Two ##\nTitle\n-----\n    code\n"
    assert split_markdown_sections(text) == [
        {"section_index": 0, "heading": "(preamble)", "level": 0, "text": "Intro.", "char_offset": 1},
        {
            "section_index": 1,
            "heading": "One",
            "level": 1,
            "text": "Body one.\n  second line  ",
            "char_offset": text.index("# One"),
        },
        {"section_index": 2, "heading": "Two", "level": 2, "text": "", "char_offset": text.index("## Two")},
        {"section_index": 3, "heading": "Title", "level": 2, "text": "    code", "char_offset": text.index("Title")},
    ]


@pytest.mark.parametrize("text", ["", " ", "\n", "\r\n \t\n", "\u3000\n\f"])
def test_a_blank_text_has_no_sections(text: str) -> None:
    assert split_markdown_sections(text) == []


def test_a_text_without_headings_is_one_document() -> None:
    assert split_markdown_sections("\n \n  plain\n\n") == [
        {"section_index": 0, "heading": "(document)", "level": 0, "text": "  plain", "char_offset": 3}
    ]


def test_a_blank_preamble_is_no_section() -> None:
    assert [section["heading"] for section in split_markdown_sections(" \n\n# One")] == ["One"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# a", [(1, "a")]),
        ("###### a", [(6, "a")]),
        ("####### a", []),
        ("#a", []),
        ("#\xa0a", []),
        ("\\# a", []),
        ("#\ta", [(1, "a")]),
        ("   # a", [(1, "a")]),
        ("    # a", []),
        ("\t# a", []),
        ("  \t# a", []),
        ("#\nfoo", [(1, "")]),
        ("#", [(1, "")]),
        ("#   \r\nfoo", [(1, "")]),
        ("## ##", [(2, "")]),
        ("# a #", [(1, "a")]),
        ("# a ###   ", [(1, "a")]),
        ("# a#", [(1, "a#")]),
        ("# a # b", [(1, "a # b")]),
        ("# a \\#", [(1, "a \\#")]),
        ("# C#", [(1, "C#")]),
        ("words\n# a\nwords\n## b", [(1, "a"), (2, "b")]),
        ("# a\r\n## b\r### c", [(1, "a"), (2, "b"), (3, "c")]),
        ("x\u2028# a", []),
        ("x\f# a", []),
        ("> # a", []),
        ("- # a", []),
    ],
)
def test_hash_headings(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n=", [(1, "a")]),
        ("a\n===\nb\n---", [(1, "a"), (2, "b")]),
        ("a\r\n===\r\nb", [(1, "a")]),
        ("  a  \n   ---  \nb", [(2, "a")]),
        ("first\nlast\n---", [(2, "last")]),
        ("a\n    b\n---", [(2, "b")]),
        ("a\n    ---", []),
        ("a\n\n---", []),
        ("a\n= =", []),
        ("a\n---x", []),
        ("a\n- - -\nb", []),
        ("a | b\n--- | ---", []),
        ("---\na", []),
        ("===\na", []),
        ("***\n---", []),
        ("    code\n---", []),
        ("- item\n---", []),
        ("1. item\n---", []),
        ("- item\nstill the item\n---", []),
        ("> quote\n---", []),
        ("> quote\n===", []),
        ("> quote\nstill the quote\n---\n", []),
        ("> quote\n\nb\n---", [(2, "b")]),
        ("# a\n---", [(1, "a")]),
        ("a\n---\n---", [(2, "a")]),
        ("```\ncode\n```\n---", []),
        ("--\n---", [(2, "--")]),
    ],
)
def test_underlined_headings(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```\n# a\n```\n# b", ["b"]),
        ("~~~\n# a\n~~~\n# b", ["b"]),
        ("```python\n# a\n```\n# b", ["b"]),
        ("```\na\n---\n```\n# b", ["b"]),
        ("````\n# a\n```\n# b\n````\n# c", ["c"]),
        ("```\n# a\n`````\n# b", ["b"]),
        ("```\n# a\n~~~\n# b\n```\n# c", ["c"]),
        ("~~~ `x`\n# a\n~~~\n# b", ["b"]),
        ("```\n# a\n``` no end\n# b", []),
        ("```\n# a\n    ```\n# b", []),
        ("```\n# a\n   ```  \n# b", ["b"]),
        ("   ```\n# a\n```\n# b", ["b"]),
        ("    ```\n# a", ["a"]),
        ("``\n# a", ["a"]),
        ("``` x ```\n# a", ["a"]),
        ("```\n# a\n\n\n# b", []),
        ("```\r\n# a\r\n```\r\n# b\r\n", ["b"]),
        ("- ```\n  # a\n  ```\n# b", ["b"]),
        ("1. ```sh\n   # a\n\n   ```\n# b", ["b"]),
        ("- ```\n  # a\n# b", ["b"]),
    ],
)
def test_fenced_code_holds_no_headings(text: str, expected: list[str]) -> None:
    assert [heading for _, heading in headings(text)] == expected


@given(
    mark=st.sampled_from("`~"),
    length=st.integers(3, 6),
    more=st.integers(0, 3),
    inside=st.lists(st.sampled_from(["# no", "no\n---", "```", "~~~", "", "words", "    ```````"]), max_size=6),
)
def test_a_fence_ends_with_as_many_of_the_same_mark(mark: str, length: int, more: int, inside: list[str]) -> None:
    fence = mark * length
    code = "\n".join(line for line in inside if line != fence)
    text = f"# before\n{fence}\n{code}\n{fence}{mark * more}\n# after\n"
    assert headings(text) == [(1, "before"), (1, "after")]
    assert split_markdown_sections(text)[0]["text"].startswith(fence)


def visible(text: str) -> int:
    return sum(not char.isspace() for char in text)


@given(text=st.one_of(MARKDOWN, st.text(max_size=80), st.text(alphabet="#=-`~ \t\r\na1.>", max_size=80)))
def test_markdown_sections_are_exact_and_lose_nothing(text: str) -> None:
    sections = split_markdown_sections(text)
    starts = [section["char_offset"] for section in sections] + [len(text)]
    assert starts[:-1] == sorted(set(starts[:-1]))
    assert not text[: starts[0]].strip()
    for index, (section, start, end) in enumerate(zip(sections, starts, starts[1:], strict=False)):
        source, body, heading = text[start:end], section["text"], section["heading"]
        assert section["section_index"] == index
        if section["level"] == 0:
            assert index == 0
            assert heading == ("(document)" if len(sections) == 1 else "(preamble)")
            assert source[: len(body)] == body
            assert not source[len(body) :].strip()
        else:
            assert start == 0 or text[start - 1] in "\r\n"
            assert heading in source
            assert source.rstrip().endswith(body.rstrip())
            marks = visible(source) - visible(body) - visible(heading)
            assert marks > 0
    assert bool(sections) == bool(text.strip())


@given(text=MARKDOWN)
def test_bodies_have_no_blank_lines_at_their_ends(text: str) -> None:
    for body in texts(split_markdown_sections(text)):
        lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert body == "" or (lines[0].strip() and lines[-1].strip())


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece",
    ["#", "`", "~", "=", "-", " ", "\t", "\n", "\r", ">", "0", "- ", "1. ", "* ", "_ ", "``` `", "# ", " #", "=\t"]
    + ["a\n", "```\n", "~~~ x\n", "- ```\n", "==== x\n", "     \n", "> a\n===\n", "\n ", "a\n=\n"],
)
def test_hostile_repeats_take_linear_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    sections = split_markdown_sections(text)
    assert sum(visible(section["text"]) for section in sections) <= visible(text)
    assert chunk_text(text, 5_000, 0)[-1]["char_offset"] <= len(text)
    assert len(split_sections(text, separator=piece + "x")) == (1 if text.strip() else 0)
