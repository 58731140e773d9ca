"""What a write says is exact, and bounds and indices are checked the same on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolstash import BaseStore, Ctx, InvalidArgumentError, PayloadTooLargeError, UnstorableValueError, WorkspaceMeta
from toolstash.store.payload import Payload


async def put(store: BaseStore, payload: object) -> WorkspaceMeta:
    return (await store.replace(WorkspaceMeta("w", "papers", ttl=60.0), Payload(payload))).meta


async def test_racing_writers_each_learn_their_own_version(store: BaseStore) -> None:
    await put(store, [0])
    for _ in range(20):
        first, second = await asyncio.gather(store.update_item("w", 0, "A"), store.update_item("w", 0, "B"))
        assert first.version != second.version
        held = await store.get_meta("w")
        assert held is not None
        assert held.version in (first.version, second.version)
    counts = await asyncio.gather(*(store.append_items("w", [number]) for number in range(50)))
    assert sorted(counts) == list(range(2, 52))


async def test_the_meta_after_a_write_is_that_of_a_read(store: BaseStore) -> None:
    await put(store, [{"a": "é"}])
    after = await store.patch_item("w", 0, {"b": "ü"})
    read = await store.get_meta("w")
    assert read is not None
    assert (after.version, after.item_count, after.chars, after.ttl, after.created_at) == (
        read.version,
        read.item_count,
        read.chars,
        read.ttl,
        read.created_at,
    )


@pytest.mark.parametrize("index", [-1, "1", 1.5, True, None])
async def test_an_index_is_a_whole_number_from_0_on(store: BaseStore, index: Any) -> None:
    await put(store, [1, 2, 3])

    for call in (
        store.update_item("w", index, 9),
        store.patch_item("w", index, {}),
        store.delete_items("w", [index]),
        store.get_page("w", index, 2),
        store.get_page("w", 0, index),
    ):
        with pytest.raises(InvalidArgumentError, match="out of range"):
            await call
    assert await store.get_items("w") == [1, 2, 3]


@pytest.mark.parametrize("rows", ["abc", {"a": 1}, b"abc"])
async def test_one_value_is_not_taken_for_rows(store: BaseStore, rows: Any) -> None:
    await put(store, [1])

    with pytest.raises(InvalidArgumentError, match="in a list"):
        await store.append_items("w", rows)
    assert await store.append_items("w", []) == 1


async def test_the_bounds_of_a_ctx_hold_for_every_write(store: BaseStore) -> None:
    ctx = Ctx(store, max_items=3, max_bytes=100)
    Ctx(store)  # another one with bounds of its own changes nothing for what the first one stored
    ref = await ctx.store_workspace([1, 2], workspace_type="a")

    with pytest.raises(PayloadTooLargeError):
        await store.append_items(ref.workspace_id, [3, 4])
    with pytest.raises(PayloadTooLargeError):
        await store.update_item(ref.workspace_id, 0, "x" * 200)
    with pytest.raises(PayloadTooLargeError):
        await store.set_items(ref.workspace_id, [1, 2, 3, 4])
    assert await store.get_items(ref.workspace_id) == [1, 2]


async def test_numbers_stored_as_null_are_counted_in_the_meta(store: BaseStore) -> None:
    await put(store, [{"x": float("nan")}, {"x": float("-inf"), "y": None}])
    await store.append_items("w", [{"x": float("inf")}, 1.5])
    after = await store.patch_item("w", 0, {"z": float("nan")})
    assert after.non_finite == 4
    assert await store.get_items("w") == [{"x": None, "z": None}, {"x": None, "y": None}, {"x": None}, 1.5]


async def test_metadata_without_a_json_form_is_refused(store: BaseStore) -> None:
    ctx = Ctx(store)

    with pytest.raises(UnstorableValueError):
        await ctx.store_workspace([1], workspace_type="a", meta={"x": object()})
    with pytest.raises(UnstorableValueError):
        ctx.producer(workspace_type="a", meta={"x": object()})(list)
    assert await store.list_workspaces() == []
