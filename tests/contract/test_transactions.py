"""Several changes in one step, on every store: all of them or none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolstash import BaseStore, Ctx, InvalidArgumentError, PayloadTooLargeError, VersionConflictError

ROWS = [{"n": 0}, {"n": 1}, {"n": 2}]


async def stored(store: BaseStore, rows: list[Any] | None = None, **options: Any) -> str:
    ref = await Ctx(store, **options).store_workspace(ROWS if rows is None else rows, workspace_type="t")
    return ref.workspace_id


async def test_changes_follow_each_other_and_come_in_one_step(store: BaseStore) -> None:
    ws = await stored(store)
    before = await store.get_meta(ws)
    async with store.transaction(ws) as t:
        t.delete_items([0])
        t.patch_item(0, {"seen": True})
        t.append_items([{"n": 3}])
        t.patch_item(2, {"new": True})
        t.update_item(1, {"n": 20})
        assert await store.get_items(ws) == ROWS, "reads inside see the state before"
    assert await store.get_items(ws) == [{"n": 1, "seen": True}, {"n": 20}, {"n": 3, "new": True}]
    after = await store.get_meta(ws)
    assert before is not None
    assert after is not None
    assert after.version.split(".") == [before.version.split(".")[0], "1"]
    assert (after.item_count, after.chars) == (3, len('{"n":1,"seen":true}{"n":20}{"n":3,"new":true}'))


async def test_an_exception_applies_nothing(store: BaseStore) -> None:
    ws = await stored(store)
    with pytest.raises(RuntimeError, match="stop"):
        async with store.transaction(ws) as t:
            t.append_items([{"n": 3}])
            raise RuntimeError("stop")
    assert await store.get_items(ws) == ROWS


@pytest.mark.parametrize("mistake", ["range", "shape", "row", "limit"])
async def test_one_wrong_change_applies_none(store: BaseStore, mistake: str) -> None:
    ws = await stored(store, [*ROWS, "text"], max_items=5)
    with pytest.raises((InvalidArgumentError, PayloadTooLargeError)):
        async with store.transaction(ws) as t:
            t.patch_item(0, {"n": 100})
            if mistake == "range":
                t.delete_items([9])
            elif mistake == "shape":
                t.patch_item(3, {"n": 1})
            elif mistake == "row":
                t.patch_item(-1, {})
            else:
                t.append_items([1, 2])
    assert await store.get_items(ws) == [*ROWS, "text"]


async def test_set_items_and_what_comes_after_it(store: BaseStore) -> None:
    ws = await stored(store)
    async with store.transaction(ws) as t:
        t.append_items(["lost"])
        t.set_items([{"a": 1}, {"a": 2}])
        t.patch_item(1, {"b": 1})
        t.append_items([{"a": 3}])
        t.delete_items([0])
    assert await store.get_items(ws) == [{"a": 2, "b": 1}, {"a": 3}]
    async with store.transaction(ws) as t:
        t.set_items([])
    assert await store.get_items(ws) == []
    async with store.transaction(ws):
        pass
    await store.append_items(ws, [1])
    assert await store.get_items(ws) == [1]


async def test_somebody_elses_change_is_noticed(store: BaseStore) -> None:
    ws = await stored(store)
    with pytest.raises(VersionConflictError):
        async with store.transaction(ws) as t:
            t.delete_items([0])
            await store.append_items(ws, [{"n": 3}])
    assert len(await store.get_items(ws)) == 4
    async with store.transaction(ws) as t:
        t.append_items([{"n": 4}])
        await store.append_items(ws, [{"n": 5}])
    assert [row["n"] for row in await store.get_items(ws)] == [0, 1, 2, 3, 5, 4]


async def test_transactions_that_only_append_never_conflict(store: BaseStore) -> None:
    ws = await stored(store, [])

    async def add(number: int) -> None:
        async with store.transaction(ws) as t:
            t.append_items([number])
            t.append_items([number])

    await asyncio.gather(*(add(number) for number in range(40)))
    rows = await store.get_items(ws)
    assert sorted(rows) == sorted([*range(40), *range(40)])
    assert all(rows[place] == rows[place + 1] for place in range(0, 80, 2))


async def test_a_transaction_changes_at_most_10000_rows(store: BaseStore) -> None:
    ws = await stored(store)
    with pytest.raises(InvalidArgumentError, match="at most 10,000"):
        async with store.transaction(ws) as t:
            t.append_items([1] * 6_000)
            t.append_items([1] * 6_000)
    assert await store.get_items(ws) == ROWS
    async with store.transaction(ws) as t:
        t.append_items([0] * 3_000)
        for _ in range(2_000):
            t.delete_items([3])
    assert len(await store.get_items(ws)) == 1_003


async def test_a_task_started_in_a_transaction_may_open_its_own(store: BaseStore) -> None:
    ws, other = await stored(store), await stored(store)
    ended = asyncio.Event()

    async def work(name: str, *, after: bool) -> None:
        if after:
            await ended.wait()
        async with store.transaction(name) as t:
            t.append_items([9])

    async with store.transaction(ws):
        later = asyncio.create_task(work(ws, after=True))
        await asyncio.create_task(work(other, after=False))
    ended.set()
    await later
    assert (await store.get_items(ws))[-1] == (await store.get_items(other))[-1] == 9


async def test_sync_code_in_a_loop_is_told_what_to_write(store: BaseStore) -> None:
    ws = await stored(store)
    with pytest.raises(RuntimeError, match="async with store.transaction"), store.blocking.transaction(ws):
        pass


async def test_racing_transactions_lose_nothing(store: BaseStore) -> None:
    ws = await stored(store, [{"n": 0}])

    async def add_one() -> None:
        while True:
            try:
                async with store.transaction(ws) as t:
                    (row,) = await store.get_items(ws)
                    t.update_item(0, {"n": row["n"] + 1})
                return
            except VersionConflictError:
                continue

    await asyncio.gather(*(add_one() for _ in range(12)))
    assert await store.get_items(ws) == [{"n": 12}]


async def test_transactions_do_not_nest_or_span(store: BaseStore) -> None:
    ws, other = await stored(store), await stored(store)
    with pytest.raises(RuntimeError, match="open already"):
        async with store.transaction(ws) as t, store.transaction(other):
            t.append_items([1])
    assert await store.get_items(ws) == ROWS
    with pytest.raises(RuntimeError, match="not open"):
        store.transaction(ws).append_items([1])
    with pytest.raises(RuntimeError, match="not open"):
        t.append_items([1])


async def test_sync_transactions_do_not_nest_either(store: BaseStore) -> None:
    ws, other = await stored(store), await stored(store)

    def work() -> None:
        with store.blocking.transaction(ws) as outer:
            outer.append_items([{"n": 3}])
            with pytest.raises(RuntimeError, match="open already"), store.blocking.transaction(other):
                pass
        with store.blocking.transaction(other) as later:
            later.append_items([{"n": 3}])

    await asyncio.to_thread(work)
    assert len(await store.get_items(ws)) == len(await store.get_items(other)) == 4


async def test_one_object_is_open_once(store: BaseStore) -> None:
    ws = await stored(store)
    transaction = store.transaction(ws)
    async with transaction as t:
        t.append_items([{"n": 3}])
        with pytest.raises(RuntimeError, match="open already"):
            async with transaction:
                pass
    assert len(await store.get_items(ws)) == 4
    async with transaction as t:
        t.append_items([{"n": 4}])
    assert len(await store.get_items(ws)) == 5


async def test_it_may_end_in_another_task_than_it_began_in(store: BaseStore) -> None:
    ws = await stored(store)
    transaction = store.transaction(ws)
    t = await asyncio.create_task(transaction.__aenter__())
    t.append_items([{"n": 3}])
    await asyncio.create_task(transaction.__aexit__(None, None, None))
    assert len(await store.get_items(ws)) == 4
    async with store.transaction(ws):
        pass


async def test_in_sync_code(store: BaseStore) -> None:
    ws = await stored(store)

    def work() -> None:
        with store.blocking.transaction(ws) as t:
            t.append_items([{"n": 3}])
            t.patch_item(3, {"m": 1})

    await asyncio.to_thread(work)
    assert (await store.get_items(ws))[3] == {"n": 3, "m": 1}


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 9), max_size=2)),
        st.tuples(st.just("update"), st.integers(0, 5)),
        st.tuples(st.just("patch"), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 5), max_size=2)),
        st.tuples(st.just("set"), st.lists(st.integers(0, 9), max_size=3)),
    ),
    max_size=5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANGES)
async def test_a_transaction_is_its_changes_one_by_one(store: BaseStore, changes: list[tuple[str, Any]]) -> None:
    ws = await stored(store)
    expected: list[Any] | None = [dict(row) for row in ROWS]
    for place, (name, argument) in enumerate(changes):
        expected = None if expected is None else applied(expected, name, argument, place)
    try:
        async with store.transaction(ws) as t:
            for place, (name, argument) in enumerate(changes):
                queue(t, name, argument, place)
    except InvalidArgumentError:
        assert expected is None
        expected = ROWS
    assert await store.get_items(ws) == expected
    meta = await store.get_meta(ws)
    assert meta is not None
    assert meta.item_count == len(expected or [])
    await store.drop_workspace(ws)


def queue(t: Any, name: str, argument: Any, place: int) -> None:
    if name in ("append", "set"):
        rows = [{"n": number} for number in argument]
        t.append_items(rows) if name == "append" else t.set_items(rows)
    elif name == "update":
        t.update_item(argument, {"u": place})
    elif name == "patch":
        t.patch_item(argument, {f"p{place}": place})
    else:
        t.delete_items(argument)


def applied(rows: list[Any], name: str, argument: Any, place: int) -> list[Any] | None:
    """The rows after one change; None where an index is out of range."""
    if name in ("append", "set"):
        return ([] if name == "set" else rows) + [{"n": number} for number in argument]
    indices = argument if isinstance(argument, list) else [argument]
    if any(index >= len(rows) for index in indices):
        return None
    if name == "delete":
        return [row for index, row in enumerate(rows) if index not in indices]
    changed = {"u": place} if name == "update" else rows[argument] | {f"p{place}": place}
    return [changed if index == argument else row for index, row in enumerate(rows)]
