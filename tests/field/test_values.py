"""Values that other software loses on the way: F21, F26 to F29, F35, F36 of the field's reports."""

from __future__ import annotations

import datetime as dt
import enum
import json
import pathlib
import uuid
from decimal import Decimal
from typing import Any

from tests.field.test_searching import call, stored
from toolstash import BaseStore

BIG = 7203115598421339137


async def test_f26_not_a_number_and_infinity(store: BaseStore) -> None:
    ctx, ws = await stored(store, [{"x": float("nan")}, {"x": float("inf")}, {"x": 1.5}])
    page = await call(ctx, "paginate", ws)
    assert page["result"]["items"] == [{"x": None}, {"x": None}, {"x": 1.5}]
    ordered = await call(ctx, "sort_by", ws, field="x")
    assert [item["index"] for item in ordered["items"]] == [2, 0, 1]
    above = await call(ctx, "filter_by", ws, field="x", value=0, operator="gt")
    assert [hit["index"] for hit in above["results"]] == [2]
    measured = await call(ctx, "aggregate", ws, metrics={"m": "mean:x", "s": "sum:x", "n": "count"})
    assert measured == {"result": {"m": 1.5, "s": 1.5, "n": 3}, "skipped": {"m": 2, "s": 2}}


async def test_f27_integers_above_what_a_double_holds(store: BaseStore) -> None:
    rows = [{"id": BIG}, {"id": BIG + 1}, {"id": str(BIG)}, {"id": BIG - 1}, {"id": float(BIG)}]
    ctx, ws = await stored(store, rows)
    for value in (BIG, str(BIG)):
        answer = await call(ctx, "filter_by", ws, field="id", value=value)
        assert [hit["index"] for hit in answer["results"]] == [0, 2]
        piped = await call(ctx, "pipe", ws, steps=[{"filter": {"id": {"$in": [value]}}}, {"count": True}])
        assert piped == {"count": 2}
    found = await call(ctx, "search", ws, query=BIG)
    assert [match["index"] for match in found["matches"]] == [0, 2]
    ordered = await call(ctx, "sort_by", ws, field="id")
    assert [item["index"] for item in ordered["items"]] == [3, 4, 0, 1, 2], "the double of BIG is BIG - 1"
    total = await call(ctx, "pipe", ws, steps=[{"limit": 2}, {"group_by": {"field": "x", "metrics": {"s": "sum:id"}}}])
    assert total["items"] == [{"x": None, "s": 2 * BIG + 1}]


class Colour(enum.Enum):
    RED = "red"


async def test_f28_what_a_database_returns(store: BaseStore) -> None:
    when = dt.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    row = {
        "price": Decimal("1234.10"),
        "day": dt.date(2024, 5, 6),
        "at": when,
        "naive": dt.datetime(2024, 5, 6, 7, 8),
        "time": dt.time(7, 8),
        "took": dt.timedelta(minutes=90),
        "id": uuid.UUID(int=7),
        "colour": Colour.RED,
        "path": pathlib.PurePosixPath("/a/b"),
        "tags": {"x"},
    }
    ctx, ws = await stored(store, [row, row | {"day": dt.date(2023, 1, 1), "price": Decimal("0.5")}])
    item = await call(ctx, "get_item", ws, index=0)
    assert item["price"] == 1234.1
    assert item["day"] == "2024-05-06"
    assert item["at"] == "2024-05-06T05:08:09.000010Z"
    assert item["colour"] == "red"
    assert item["tags"] == ["x"]
    later = await call(ctx, "filter_by", ws, field="day", value="2024-01-01", operator="gte")
    assert [hit["index"] for hit in later["results"]] == [0]
    assert [hit.index for hit in await store.filter_items(ws, "day", dt.date(2023, 6, 1), "lt")] == [1]
    assert [hit.index for hit in await store.filter_items(ws, "price", Decimal("1234.10"))] == [0]
    extremes = await call(ctx, "aggregate", ws, metrics={"first": "min:day", "last": "max:day", "sum": "sum:price"})
    assert extremes["result"] == {"first": "2023-01-01", "last": "2024-05-06", "sum": 1234.6}


async def test_f35_and_f36_one_row_longer_than_any_answer(store: BaseStore) -> None:
    long = "abc " * 75_000
    ctx, ws = await stored(store, [{"body": long, "n": 0}, {"body": "abc", "n": 1}])
    for answer, rows in (
        (await call(ctx, "search", ws, query="abc"), "matches"),
        (await call(ctx, "filter_by", ws, field="n", value=0), "results"),
        (await call(ctx, "sort_by", ws, field="n"), "items"),
        (await call(ctx, "pipe", ws, steps=[{"filter": {"n": 0}}]), "items"),
    ):
        assert answer[rows], "an answer always makes progress"
        assert len(str(answer)) < 14_000
        assert answer["limited_by"] == "chars"
        assert answer["cut"][0]["field"] == "body"
        assert answer["cut"][0]["total_chars"] == len(long)
    pieces: list[str] = []
    offset: int | None = 0
    while offset is not None:
        piece = await call(ctx, "get_item", ws, index=0, field="body", offset=offset)
        pieces.append(piece["value"])
        offset = piece["next_offset"]
    assert "".join(pieces) == long


async def test_f21_nothing_stays_without_a_time_to_live(store: BaseStore) -> None:
    ctx, ws = await stored(store, [{"n": number} for number in range(10)], ttl=60)
    saved = await call(ctx, "pipe", ws, steps=[{"limit": 3}], save_as="few")
    async with store.transaction(ws) as transaction:
        transaction.set_items([{"n": 1}])
        transaction.append_items([{"n": 2}])
    await store.patch_item(ws, 0, {"n": 3})
    assert (await store.get_meta(ws)).ttl == 60  # type: ignore[union-attr]
    left = await lives(store, ws)
    assert all(0 < life <= 60_000 for life in left)
    kept: dict[str, Any] = saved
    assert kept["item_count"] == 3


async def lives(store: BaseStore, workspace_id: str) -> list[int]:
    """Milliseconds that the data of a workspace still has, by key, on the servers that have keys."""
    connections = getattr(store, "_connections", None)
    if connections is None:
        return [60_000]
    keys = store._keys.workspace(await store.locate(workspace_id))  # type: ignore[attr-defined]
    found: list[int] = []
    cursor: Any = b"0"
    while True:
        cursor, names = await connections.command("SCAN", cursor, "MATCH", f"{keys.stem}rows:*", "COUNT", 1000)
        found += [await connections.command("PTTL", name) for name in names]
        found += [await connections.command("PTTL", keys.meta)]
        if cursor in (b"0", 0):
            return found


async def test_f29_half_a_pair_of_surrogates(store: BaseStore) -> None:
    """Halves are kept, pairs that JSON text spelt out are joined, and both can be asked for."""
    rows = [{"t": "\ud834 offer", "k": "\ud834"}, {"t": json.loads('"\\ud83d\\ude80 offer"'), "k": "b"}, {"t": "none"}]
    ctx, ws = await stored(store, rows)
    assert await store.get_items(ws) == rows
    found = await call(ctx, "search", ws, query="offer")
    assert [match["index"] for match in found["matches"]] == [0, 1]
    for steps, expected in (
        ([{"filter": {"k": "\ud834"}}, {"count": True}], {"count": 1}),
        ([{"filter": {"k": {"$ne": "b"}}}, {"count": True}], {"count": 2}),
    ):
        assert await call(ctx, "pipe", ws, steps=steps) == expected
    values = await call(ctx, "field_values", ws, field="k")
    assert [entry["count"] for entry in values["distinct_values"]] == [1, 1]
    assert (await call(ctx, "search", ws, query="\U0001f680"))["total_matches"] == 1
