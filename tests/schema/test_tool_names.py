"""Tool names that every API takes, and names that models get wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstash.schema.names import near_names, repair_name, tool_name

KNOWN = ["papers_paginate", "papers_search", "papers_count", "news_paginate"]


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("papers", "paginate"), "papers_paginate"),
        (("result-2", "Get"), "result-2_Get"),
        (("search",), "search"),
        (("a" * 40,), "a" * 40),
        (("my.type", "count"), "my_type_67b4d6a7_count"),
        (("2024_papers", "count"), "t_2024_papers_67b4d6a7_count"),
        (("-x",), "t_x_67b4d6a7"),
    ],
)
def test_good_names_stay_and_others_get_a_hash(parts: tuple[str, ...], name: str) -> None:
    assert re.sub("_[0-9a-f]{8}", "_#", tool_name(*parts)) == re.sub("_[0-9a-f]{8}", "_#", name)


def test_a_long_type_keeps_its_tool_and_one_prefix() -> None:
    names = [tool_name("w" * 80, tool) for tool in ("paginate", "count")]
    assert all(len(name) <= 40 for name in names)
    assert names[0].endswith("_paginate")
    assert names[1].endswith("_count")
    assert names == [tool_name("w" * 80, tool) for tool in ("paginate", "count")]


@pytest.mark.parametrize("other", ["my_type", "my-type", "my type", "my/type", "My.type", "mý.type"])
def test_names_equal_after_cleaning_stay_apart(other: str) -> None:
    assert tool_name("my.type", "count") != tool_name(other, "count")


def test_accents_are_folded() -> None:
    assert tool_name("données", "count").startswith("donnees_")


@pytest.mark.parametrize("text", ["", "…", "\ud800", "日本", "__", " "])
def test_a_name_is_never_empty(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,39}", tool_name(text))


@given(st.lists(st.text(max_size=60), min_size=1, max_size=3))
def test_every_name_is_valid_and_stable(parts: list[str]) -> None:
    name = tool_name(*parts)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,39}", name)
    assert tool_name(*parts) == name


@given(st.text(max_size=50), st.text(max_size=50))
def test_two_types_never_share_a_name(one: str, other: str) -> None:
    assert one == other or tool_name(one, "count") != tool_name(other, "count")


@pytest.mark.parametrize(
    "wanted",
    ["papers_paginate", "Papers_Paginate", "papers-paginate", "papers.paginate", "papersPaginate", "PAPERS PAGINATE"],
)
def test_case_and_separators_are_repaired(wanted: str) -> None:
    assert repair_name(wanted, KNOWN) == "papers_paginate"


@pytest.mark.parametrize(
    "wanted", ["paginate", "mcp_mcp_papers_paginate", "papers_delete", "", "___", "p" * 10_000_000]
)
def test_nothing_else_is_repaired(wanted: str) -> None:
    assert repair_name(wanted, KNOWN) is None


def test_two_matches_are_none() -> None:
    assert repair_name("AB_C", ["ab_c", "a_bc"]) is None
    assert repair_name("ab_c", ["ab_c", "a_bc"]) == "ab_c"


def test_near_names() -> None:
    assert near_names("paginate", KNOWN)[:2] == ["news_paginate", "papers_paginate"]
    assert near_names("papers_delete", KNOWN, most=1) in (["papers_paginate"], ["papers_search"], ["papers_count"])
    assert near_names("mcp__papers_count", KNOWN)[0] == "papers_count"
    assert near_names("zzz", KNOWN) == []
    assert near_names("", KNOWN) == []
    assert len(near_names("papers" * 1_000_000, KNOWN)) <= 5
