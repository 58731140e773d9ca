"""The engine and the plain reference give the same answers, for whatever rows and questions."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from tests.query import reference, strategies
from toolstash.errors import ToolstashError
from toolstash.query.conditions import compile_condition
from toolstash.query.order import first_positions, sort_positions
from toolstash.query.pipeline import compile_pipeline
from toolstash.query.questions import FieldValues
from toolstash.query.table import RowsTable, Table
from toolstash.query.work import Work
from toolstash.store.codec import Tally, encode_many
from toolstash.store.snapshot import Snapshot

MANY = settings(max_examples=200, deadline=None)


def tables(rows: list[Any]) -> list[Table]:
    tally = Tally()
    documents = encode_many(rows, tally, first_row=0)
    return [RowsTable(rows), Snapshot(documents, tally.codec, tally.bytes)]


def same(a: Any, b: Any) -> bool:
    """Equal as JSON, with floats to 9 digits."""
    if float in (type(a), type(b)) and {type(a), type(b)} <= {int, float}:
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


@MANY
@given(strategies.rows(), strategies.conditions())
def test_conditions(rows: list[Any], condition: dict[str, Any]) -> None:
    expected = reference.filter_rows(rows, condition)
    for table in tables(rows):
        assert compile_condition(condition).select(table.column, range(len(table))) == expected


@MANY
@given(strategies.rows(), strategies.sort_specs())
def test_order(rows: list[Any], keys: list[tuple[str, bool]]) -> None:
    for table in tables(rows):
        positions: Any = range(len(table))
        for path, descending in reversed(keys):
            positions = sort_positions(table.column(path), positions, descending=descending)
        assert list(positions) == reference.sort_rows(rows, keys)
        path, descending = keys[0]
        first = first_positions(table.column(path), range(len(table)), 3, descending=descending)
        assert first == reference.sort_rows(rows, keys[:1])[:3]


@MANY
@given(strategies.rows(), strategies.paths())
def test_field_values(rows: list[Any], path: str) -> None:
    expected = reference.distinct(rows, path)
    for table in tables(rows):
        found = FieldValues(path, 1_000).answer(table, Work())
        assert same([list(pair) for pair in found.values], [list(pair) for pair in expected])
        assert found.total == len(expected)


@MANY
@given(strategies.rows(), strategies.pipelines())
def test_pipelines(rows: list[Any], steps: list[dict[str, Any]]) -> None:
    before = orjson.dumps(rows, default=str, option=orjson.OPT_PASSTHROUGH_SUBCLASS) if _is_plain(rows) else None
    expected = reference.run_pipeline(rows, steps)
    for table in tables(rows):
        state = compile_pipeline(steps).run(table, Work())
        if state.count is not None:
            assert {"count": state.count} == expected
        else:
            assert same(state.table.rows_at(state.positions), expected), steps
    if before is not None:
        assert orjson.dumps(rows) == before


def _is_plain(rows: Any) -> bool:
    try:
        orjson.dumps(rows)
    except TypeError:
        return False
    return True


@settings(max_examples=100, deadline=None)
@given(strategies.rows(), strategies.pipelines())
def test_a_window_of_rows_is_enough_where_a_pipeline_says_so(rows: list[Any], steps: list[dict[str, Any]]) -> None:
    pipeline = compile_pipeline([{"skip": 1}, {"limit": 4}, *steps])
    window = pipeline.window
    assert window is not None
    part = pipeline.after_window().run(RowsTable(rows[window[0] : window[1]]), Work())
    whole = pipeline.run(RowsTable(rows), Work())
    assert part.count == whole.count
    assert same(part.table.rows_at(part.positions), whole.table.rows_at(whole.positions))


@pytest.mark.parametrize("seed", [0, 7, "a", -3])
def test_a_seeded_sample_is_the_same_everywhere(seed: int | str) -> None:
    rows = [{"n": number} for number in range(50)]
    steps = [{"sample": {"n": 5, "seed": seed}}]
    picked = [compile_pipeline(steps).run(table, Work()).positions for table in tables(rows) * 2]
    assert all(positions == picked[0] for positions in picked)
    assert picked[0] == sorted(set(picked[0]))
    assert len(picked[0]) == 5
    if seed == 7:
        assert picked[0] == [6, 8, 21, 33, 34], "the same in every release of Python"


def test_nothing_but_known_errors_for_any_steps() -> None:
    for steps in ([{"sort": {"field": "a", "order": 1}}], [[]], [None], ["limit"], [{"limit": -1}], [{"a": 1, "b": 2}]):
        with pytest.raises(ToolstashError) as caught:
            compile_pipeline(steps)
        assert caught.value.details["step"] == 0
        assert "example" in caught.value.details
