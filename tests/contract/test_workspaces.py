"""What every store does with workspaces: once written, run on every back end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from tests.wait import until
from toolstash import (
    BaseStore,
    InvalidArgumentError,
    PayloadTooLargeError,
    QuotaExceededError,
    UnstorableValueError,
    VersionConflictError,
    WorkspaceConflictError,
    WorkspaceExpiredError,
    WorkspaceMeta,
    WorkspaceNotFoundError,
    WorkspaceShapeMismatchError,
)
from toolstash.contracts import Limits
from toolstash.store.payload import Payload
from toolstash.store.primitives import ReplaceRule

ROWS = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(25)]


async def put(store: BaseStore, payload: object, name: str = "w", **meta: object) -> WorkspaceMeta:
    draft = WorkspaceMeta(workspace_id=name, workspace_type=str(meta.pop("workspace_type", "papers")), **meta)  # type: ignore[arg-type]
    return (await store.replace(draft, Payload(payload))).meta


async def test_a_list_is_stored_and_paged(store: BaseStore) -> None:
    meta = await put(store, ROWS, producer_fn="load", producer_kwargs={"q": "ml"}, extra={"source": "x"}, ttl=60.0)

    assert (meta.item_count, meta.data_shape) == (25, "list")
    assert await store.get_page("w", 10, 5) == ROWS[10:15]
    assert await store.get_page("w", 20, 50) == ROWS[20:]
    assert await store.get_page("w", 99, 5) == []
    assert await store.get_items("w") == ROWS
    found = await store.get_meta("w")
    assert found is not None
    assert replace(found, last_accessed_at=meta.last_accessed_at) == meta
    assert found.producer_kwargs == {"q": "ml"}
    assert found.expires_at == pytest.approx(found.created_at + 60)


async def test_a_dict_keeps_its_order_and_is_read_by_key(store: BaseStore) -> None:
    payload = {"zeta": [1, {"a": None}], "alpha": "text", "a.b": 3, "": 4}
    meta = await put(store, payload)
    at = await store.locate("w")

    assert (meta.item_count, meta.data_shape) == (4, "dict")
    assert list(await store.get_items("w")) == list(payload)
    assert await store.get_items("w") == payload
    assert (await store.read_names(at, 1, 3)).data == ["alpha", "a.b"]
    assert (await store.read_fields(at, ["a.b", "", "missing"])).data == {"a.b": 3, "": 4}


async def test_a_text_is_read_by_code_points(store: BaseStore) -> None:
    text = "".join(chr(0x1F600 + number % 50) if number % 3 else "é" for number in range(10_000))
    meta = await put(store, text)

    assert (meta.item_count, meta.chars, meta.data_shape) == (1, 10_000, "scalar")
    for start, stop in [(0, 10), (4_090, 4_100), (8_191, 8_193), (9_990, 20_000), (12_000, 13_000)]:
        assert await store.get_page("w", start, stop - start) == text[start:stop]
    assert await store.get_items("w") == text


@pytest.mark.parametrize("value", [None, True, 0, -1.5, 2**80])
async def test_a_bare_value_is_a_scalar(store: BaseStore, value: object) -> None:
    meta = await put(store, value)

    assert (meta.item_count, meta.data_shape) == (1, "scalar")
    assert await store.get_items("w") == value


@pytest.mark.parametrize(("payload", "shape"), [([], "list"), ({}, "dict"), ("", "scalar")])
async def test_an_empty_result_is_a_workspace(store: BaseStore, payload: object, shape: str) -> None:
    meta = await put(store, payload)

    assert meta.data_shape == shape
    assert await store.get_items("w") == payload
    assert await store.list_workspaces() == ["w"]


async def test_generators_are_streamed(store: BaseStore) -> None:
    def rows() -> Iterator[int]:
        yield from range(4_500)

    async def later() -> AsyncIterator[int]:
        for number in range(2_500):
            yield number

    assert (await put(store, rows())).item_count == 4_500
    assert await store.get_items("w") == list(range(4_500))
    assert (await put(store, later(), "async")).item_count == 2_500
    assert await store.get_page("async", 2_400, 3) == [2_400, 2_401, 2_402]


async def test_a_failing_stream_leaves_the_old_workspace(store: BaseStore) -> None:
    await put(store, ROWS)

    async def broken() -> AsyncIterator[int]:
        for number in range(3_000):
            yield number
        raise OSError("the source broke")

    with pytest.raises(OSError, match="the source broke"):
        await put(store, broken())
    assert await store.get_items("w") == ROWS


async def test_many_rows_come_back_whole(store: BaseStore) -> None:
    rows = [{"n": number, "pad": "x" * (number % 300)} for number in range(6_100)]
    await put(store, rows)

    assert await store.get_items("w") == rows
    assert await store.get_page("w", 150, 300) == rows[150:450]
    assert [row async for row in store.iter_items("w")] == rows


async def test_rows_of_very_different_size(store: BaseStore) -> None:
    rows = ["x" * 900_000 if number % 100 == 0 else str(number) for number in range(450)]
    await put(store, rows)

    assert await store.get_items("w") == rows
    assert await store.get_page("w", 95, 120) == rows[95:215]


async def test_a_large_dict_comes_back_whole(store: BaseStore) -> None:
    payload = {f"key {number}": "v" * (number % 700) for number in range(3_000)}
    await put(store, payload)

    assert await store.get_items("w") == payload
    assert (await store.read_names(await store.locate("w"))).data == list(payload)


async def test_replacing_changes_everything_at_once(store: BaseStore) -> None:
    first = await put(store, ROWS, ttl=60.0)
    second = await put(store, {"now": "a dict"}, workspace_type="config")

    assert await store.get_items("w") == {"now": "a dict"}
    assert (second.workspace_type, second.ttl) == ("config", None)
    assert second.version != first.version
    assert await store.list_workspaces() == ["w"]


async def test_a_replace_rule_protects_a_foreign_workspace(store: BaseStore) -> None:
    await put(store, ROWS, producer_fn="load")
    draft = WorkspaceMeta("w", "papers", producer_fn="other")

    for rule in [ReplaceRule("papers", ("other", "pipeline")), ReplaceRule("people", ("load",))]:
        with pytest.raises(WorkspaceConflictError) as refusal:
            await store.replace(draft, Payload([1]), rule)
        assert refusal.value.to_llm_dict()["workspace_id"] == "w"
    assert await store.get_items("w") == ROWS
    replaced = await store.replace(draft, Payload([1]), ReplaceRule("papers", ("load", "pipeline")))
    assert replaced.meta.item_count == 1


async def test_what_cannot_be_stored_names_its_place(store: BaseStore) -> None:
    await put(store, ROWS)

    with pytest.raises(UnstorableValueError, match=r"row 1, field 'deep\.1'") as refusal:
        await put(store, [{"ok": 1}, {"deep": [1, object()]}])
    assert refusal.value.details == {"row": 1, "field": "deep.1"}
    assert await store.get_items("w") == ROWS


async def test_limits_refuse_before_anything_is_replaced(store: BaseStore) -> None:
    await put(store, ROWS)

    def bounded(**limits: int) -> WorkspaceMeta:
        return WorkspaceMeta("w", "papers", limits=Limits(**limits))

    with pytest.raises(PayloadTooLargeError) as too_many:
        await store.replace(bounded(max_items=10), Payload(list(range(11))))
    assert too_many.value.details == {"item_count": 11, "max_items": 10}
    with pytest.raises(PayloadTooLargeError):
        await store.replace(bounded(max_bytes=10_000), Payload("x" * 10_001))
    with pytest.raises(PayloadTooLargeError):
        await store.replace(bounded(max_items=10), Payload(iter(range(11))))
    assert await store.get_items("w") == ROWS


async def test_time_to_live_ends_a_workspace_and_the_sweep_names_it(store: BaseStore) -> None:
    await put(store, ROWS, producer_fn="load_papers", ttl=0.2)
    await put(store, ROWS, "stays")

    await until(lambda: _is_gone(store, "w"), what="the workspace expires")
    with pytest.raises(WorkspaceExpiredError, match="has expired") as gone:
        await store.get_items("w")
    assert "load_papers()" in gone.value.to_llm_dict()["suggested_action"]
    assert await store.list_workspaces() == ["stays"]
    assert await store.sweep_expired() == ["w"]
    assert await store.sweep_expired() == []


async def _is_gone(store: BaseStore, workspace_id: str) -> bool:
    return await store.get_meta(workspace_id) is None


async def test_dropping(store: BaseStore) -> None:
    await put(store, ROWS)

    assert await store.drop_workspace("w") is True
    assert await store.drop_workspace("w") is False
    with pytest.raises(WorkspaceNotFoundError) as missing:
        await store.get_items("w")
    assert type(missing.value) is WorkspaceNotFoundError


async def test_listing_is_by_age_and_type(store: BaseStore) -> None:
    for name, kind in [("c", "papers"), ("a", "people"), ("b", "papers")]:
        await put(store, ROWS, name, workspace_type=kind)

    assert await store.list_workspaces() == ["c", "a", "b"]
    assert await store.list_workspaces("papers") == ["c", "b"]
    await put(store, ROWS, "c")
    assert await store.list_workspaces() == ["a", "b", "c"]
    await store.clear()
    assert await store.list_workspaces() == []


async def test_quota_drops_the_oldest_and_reports_them(store: BaseStore) -> None:
    for name in "abc":
        await put(store, ROWS, name)
    kept = await store.replace(WorkspaceMeta("d", "papers", limits=Limits(max_session_workspaces=2)), Payload(ROWS))

    assert kept.dropped == ["a", "b"]
    assert await store.list_workspaces() == ["c", "d"]
    small = await store.replace(WorkspaceMeta("e", "papers", limits=Limits(max_session_bytes=10)), Payload([1]))
    assert small.dropped == ["c", "d"]
    with pytest.raises(QuotaExceededError):
        await store.replace(WorkspaceMeta("f", "papers", limits=Limits(max_session_bytes=10)), Payload(ROWS))
    assert await store.list_workspaces() == ["e"]


async def test_init_and_set_items(store: BaseStore) -> None:
    await store.init_workspace(WorkspaceMeta("w", "papers", extra={"a": 1}, item_count=99))

    assert await store.get_items("w") == []
    meta = await store.set_items("w", ROWS)
    assert (meta.item_count, meta.extra) == (25, {"a": 1})
    with pytest.raises(WorkspaceNotFoundError):
        await store.set_items("unknown", ROWS)


async def test_rows_are_appended_changed_and_deleted(store: BaseStore) -> None:
    before = await put(store, ROWS, ttl=60.0)

    assert await store.append_items("w", [{"id": 2**70}, {"id": "\ud834"}]) == 27
    await store.update_item("w", 0, "first")
    patched = await store.patch_item("w", 1, {"name": "patched", "new": 1})
    assert await store.delete_items("w", [2, 24, 2]) == 25
    rows = await store.get_items("w")
    assert rows[:2] == ["first", ROWS[1] | {"name": "patched", "new": 1}]
    assert rows[2:] == [*ROWS[3:24], {"id": 2**70}, {"id": "\ud834"}]
    assert patched.version != before.version
    after = await store.get_meta("w")
    assert after is not None
    assert (after.item_count, after.created_at, after.ttl) == (25, before.created_at, 60.0)


async def test_changes_expect_a_version_and_indices_in_range(store: BaseStore) -> None:
    meta = await put(store, ROWS)
    await put(store, {"a": 1}, "dict")
    await store.append_items("w", [1], expected_version=meta.version)

    with pytest.raises(VersionConflictError):
        await store.append_items("w", [2], expected_version=meta.version)
    for change in (store.update_item("w", 26, 1), store.patch_item("w", -1, {}), store.delete_items("w", [0, 26])):
        with pytest.raises(InvalidArgumentError, match="out of range"):
            await change
    with pytest.raises(InvalidArgumentError, match="not an object"):
        await store.patch_item("w", 25, {"a": 1})
    with pytest.raises(WorkspaceShapeMismatchError):
        await store.append_items("dict", [1])
    with pytest.raises(WorkspaceNotFoundError):
        await store.append_items("nothing", [1])
    assert await store.count_items("w") == 26


async def test_parallel_appends_and_patches_lose_nothing(store: BaseStore) -> None:
    await put(store, [{"n": 0}])

    async def work(number: int) -> None:
        await store.append_items("w", [number])
        await store.patch_item("w", 0, {f"k{number}": number})

    await asyncio.gather(*(work(number) for number in range(8)))
    rows = await store.get_items("w")
    assert sorted(rows[1:]) == list(range(8))
    assert rows[0] == {"n": 0} | {f"k{number}": number for number in range(8)}


async def test_stored_rows_are_nobodys_alias(store: BaseStore) -> None:
    rows = [{"a": [1]}]
    await put(store, rows)
    rows[0]["a"].append(2)
    (await store.get_items("w"))[0]["a"].append(3)

    assert await store.get_items("w") == [{"a": [1]}]
