"""Search finds what the plain reference finds, ranks it so, and is not misled by the JSON that it scans."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query import search_reference
from toolstash.errors import InvalidArgumentError
from toolstash.query.haystack import Haystack
from toolstash.query.questions import Search
from toolstash.query.search import search
from toolstash.query.snippet import snippet_of
from toolstash.query.table import RowsTable
from toolstash.query.terms import parse_query
from toolstash.query.words import fold, shared_start, stem
from toolstash.query.work import Work

WORDS = [
    *["run", "running", "Runs", "run1", "run2", "école", "ecole", "Ecole", "ﬁne", "xv-77", "xv-79", "12.5", "C++", "x"],
    *["a@b.org", "true", "null", "nullable", "title", "it's", "retry_backoff", "ID", "12", "5", "77"],
    *[
        "图书馆",
        "圖書",
        "東京図書館",
        "도서관에서",
        "สมุด",
        "किताब",
        "कातिब",
        "محمد",
        "مُحَمَّد",
        "שָׁלוֹם",
        "שלום",
        "re\u0301sume\u0301",
    ],
    *["nulls", "falsely", "trues", '"say hello"', '"12 5"', "0", "1"],
]
SIGNS = ['"', "\\", "\n", ":", ",", "{", "}", "\uff02", "\uff1a", "\uff02\uff1a"]
TEXTS = st.lists(st.sampled_from([*WORDS, *SIGNS]), max_size=6).map(" ".join)
NUMBERS = st.integers(-20, 20) | st.floats(-20, 20).map(lambda number: round(number, 1))
VALUES = st.one_of(TEXTS, TEXTS, NUMBERS, st.booleans(), st.none())
FIELDS = st.sampled_from(["title", "run", "true", "x-77", "a:b", ":run", "run,", "run:", ""])
OBJECTS = st.dictionaries(FIELDS, VALUES | st.lists(VALUES, max_size=3), max_size=4)
ROWS = st.lists(OBJECTS | VALUES, min_size=1, max_size=8)
ODD = ["ru*", "tit*", '"running xv"', "run,", "(école)", "unk", "nul*", "72", "-5"]
QUERIES = st.lists(st.sampled_from([*WORDS, *ODD]), min_size=1, max_size=3).map(" ".join)


def positions_and_rung(rows: list[Any], query: str, fields: list[str] | None = None) -> tuple[dict[int, float], str]:
    haystack = RowsTable(rows).haystack(fields, case_sensitive=False)
    found = search(haystack, parse_query(query), Work())
    return dict(found.scores), found.matched_by if found.scores else ""


@settings(max_examples=400, deadline=None)
@given(ROWS, QUERIES, st.sampled_from([None, ["title"], ["title", "run"]]))
def test_search_agrees_with_the_reference(rows: list[Any], query: str, fields: list[str] | None) -> None:
    found, rung = positions_and_rung(rows, query, fields)
    expected, expected_rung = search_reference.search(rows, query, fields)
    assert found.keys() == expected.keys(), (query, rung, expected_rung)
    assert rung == expected_rung
    if all(orjson.dumps(row).isascii() for row in rows) and fields is None and b"\\" not in orjson.dumps(rows):
        assert found == pytest.approx(expected)
    question = Search(parse_query(query), fields, 100)
    assert all(hit.snippet for hit in question.answer(RowsTable(rows), Work()).hits), "every hit shows where it is one"


def hits(rows: list[Any], query: str, **options: Any) -> list[int]:
    question = Search(parse_query(query, **options), None, 100)
    return [hit.index for hit in question.answer(RowsTable(rows), Work()).hits]


def test_keys_and_json_are_not_searched() -> None:
    rows = [{"title": "alpha", "flag": True, "none": None, "n": 12.5}, {"alpha": "title true", "m": [12, 5]}]
    assert hits(rows, "title") == [1]
    assert hits(rows, "alpha") == [0]
    assert hits(rows, "true") == [1]
    assert hits(rows, "null") == []
    assert hits(rows, "12.5") == [0]
    assert hits(rows, "flag") == hits(rows, "flag:") == []


def test_more_terms_and_rarer_terms_rank_higher() -> None:
    rows = [
        {"t": "graph"},
        {"t": "graph neural"},
        {"t": "neural graph graph graph"},
        {"t": "rare graph"},
        {"t": "none of it"},
    ]
    assert hits(rows, "graph neural")[:2] == [1, 2] or hits(rows, "graph neural")[:2] == [2, 1]
    assert hits(rows, "rare graph")[0] == 3
    assert hits(rows * 3, "none") == [4, 9, 14], "equal scores keep the order of the rows"


def test_case_sensitive_words_are_spelt_as_they_are() -> None:
    rows = [{"t": "US"}, {"t": "us"}, {"t": "Running"}, {"t": "École"}, {"t": "usage"}]
    assert hits(rows, "US", case_sensitive=True) == [0]
    assert hits(rows, "run", case_sensitive=True) == []
    assert hits(rows, "Runn*", case_sensitive=True) == [2]
    assert hits(rows, "Ecole", case_sensitive=True) == []
    assert hits(rows, "US") == [0, 1]


@pytest.mark.parametrize("query", ["", " ", "\t\n"])
def test_an_empty_query_is_refused(query: str) -> None:
    with pytest.raises(InvalidArgumentError, match="query is empty"):
        parse_query(query)


@pytest.mark.parametrize("query", ["x" * 1_001, " ".join(f"w{number}" for number in range(65)), "a " * 5_000])
def test_an_overlong_query_is_refused(query: str) -> None:
    with pytest.raises(InvalidArgumentError, match="at once"):
        parse_query(query)


def test_stemming_never_takes_a_word_out_of_reach() -> None:
    """Each word of the standard library's sources begins with what the scan looks for to find its stem."""
    library = Path(sysconfig.get_path("stdlib"))
    words: set[str] = set()
    for file in random.Random(1).sample(sorted(library.rglob("*.py")), 300):
        words |= set(re.findall("[a-z]+", file.read_text("utf-8", "replace").lower()))
    words |= {
        "dying",
        "lying",
        "tying",
        "skies",
        "sky",
        "ugly",
        "early",
        "only",
        "news",
        "hoping",
        "relational",
        "happiness",
    }
    assert len(words) > 5_000
    assert [word for word in words if not word.startswith(shared_start(stem(word)))] == []


def test_a_snippet_shows_the_first_match_of_a_long_text() -> None:
    terms = parse_query("needle").rungs[0][1]
    text = "é hay\n" * 200_000 + "the Needles are here" + " straw" * 1_000
    shown = snippet_of({"a": "short", "b": text}, terms, fold)
    assert "Needles are here" in shown
    assert len(shown) < 170
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert snippet_of({"a": 1}, terms, fold) == ""


@pytest.mark.parametrize("nothing", ["\u200d", '"\u200d"', "\u0640", '" "', "\ufe0f"])
def test_signs_that_do_not_count_find_nothing(nothing: str) -> None:
    rows = [{"t": "foo bar"}, {"t": "b"}]
    assert hits(rows, f"foo {nothing}") == [0]
    if '"' not in nothing:
        with pytest.raises(InvalidArgumentError, match="query is empty"):
            parse_query(nothing)


def test_numbers_side_by_side_are_no_phrase() -> None:
    assert hits([{"t": [1e16, 7]}, {"t": "1e16 7"}], '"1e16 7"') == [1]


def test_a_full_width_quotation_mark_is_found_as_it_is() -> None:
    assert hits([{"t": "a\uff02b"}], "\uff02", case_sensitive=True) == [0]
    assert hits([{"t": "a\uff02b"}], "\uff02") == [0]


def test_a_long_match_over_a_block_edge_has_a_snippet() -> None:
    word = "q" * 900
    question = Search(parse_query(word), None, 10)
    (hit,) = question.answer(RowsTable([{"t": "x " * 1_750 + word}]), Work()).hits
    assert "qqq" in hit.snippet


def test_a_word_may_end_a_row_or_stand_behind_an_escape() -> None:
    documents = [orjson.dumps(value) for value in ['\nneedle"', "a\\needle\t", "needless", {"needle": 1}, "\x00needle"]]
    haystack = Haystack(documents, fold)
    assert sorted(search(haystack, parse_query("needle"), Work()).scores) == [0, 1, 4]
