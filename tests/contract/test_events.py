"""What happens to workspaces is told, in order, to whoever may see it, on every back end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from tests.wait import until
from toolstash import BaseStore, Ctx, Event, InvalidArgumentError, QuotaExceededError, SessionRequiredError, Stats
from toolstash.contracts import Limits, WorkspaceMeta
from toolstash.store.payload import Payload

ROWS = [{"n": n} for n in range(3)]


async def taken(events: AsyncGenerator[Event], count: int) -> list[Event]:
    """The next events."""
    async with aclosing(events):
        found: list[Event] = []
        async with asyncio.timeout(20):
            async for event in events:
                found.append(event)
                if len(found) == count:
                    break
        return found


def told(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.workspace_id) for event in events]


async def store_rows(ctx: Ctx, name: str, **options: Any) -> Any:
    return await ctx.store_workspace(ROWS, workspace_type="papers", workspace_id=name, **options)


async def test_a_watcher_hears_of_each_change(store: BaseStore) -> None:
    ctx = Ctx(store)
    await store_rows(ctx, "w")
    events = asyncio.create_task(taken(ctx.watch(after="0"), 5))
    await store_rows(ctx, "w")
    await store.append_items("w", [{"n": 3}])
    version = (await store.get_meta("w")).version  # type: ignore[union-attr]
    await store.patch_item("w", 0, {"n": 9})
    await store.drop_workspace("w")

    found = await events
    kinds = ["created", "replaced", "changed", "changed", "dropped"]
    assert told(found) == [(kind, "w") for kind in kinds]
    assert {event.workspace_type for event in found} == {"papers"}
    assert found[2].version == version
    assert found[4].version == found[3].version
    assert [event.at for event in found] == sorted(event.at for event in found)


async def test_watching_begins_now_and_wakes_at_once(store: BaseStore) -> None:
    ctx = Ctx(store)
    await store_rows(ctx, "before")
    async with aclosing(ctx.watch()) as events:
        first = asyncio.ensure_future(anext(events))
        numbers = iter(range(1_000))

        async def heard() -> bool:
            await store_rows(ctx, f"after-{next(numbers)}")
            return first.done()

        await until(heard, what="an event arrives")
        assert (await first).workspace_id.startswith("after-")


async def test_filters(store: BaseStore) -> None:
    ctx = Ctx(store)
    await store_rows(ctx, "a")
    await ctx.store_workspace(ROWS, workspace_type="notes", workspace_id="b")
    await ctx.drop_workspace("a")
    await ctx.drop_workspace("b")

    assert told(await taken(ctx.watch(after="0", kinds=["dropped"]), 2)) == [("dropped", "a"), ("dropped", "b")]
    assert told(await taken(ctx.watch(after="0", workspace_type="notes"), 2)) == [("created", "b"), ("dropped", "b")]
    with pytest.raises(ValueError, match="created"):
        ctx.watch(kinds=["born"])  # type: ignore[list-item]


async def test_going_on_after_an_event_repeats_and_misses_nothing(store: BaseStore) -> None:
    ctx = Ctx(store)
    with ctx.session("one"):
        for number in range(4):
            await store_rows(ctx, f"own-{number}")
    for number in range(4):
        await store_rows(ctx, f"shared-{number}")

    with ctx.session("one"):
        whole = await taken(ctx.watch(after="0"), 8)
        for place in (0, 3, 6):
            rest = await taken(ctx.watch(after=whole[place].id), 7 - place)
            assert sorted(told(rest)) == sorted(told(whole[place + 1 :]))


@pytest.mark.parametrize("after", ["", "1", "x-y", "1-1,2-2,3-3", "1-1\n", "0-0-0", 7])
async def test_another_place_is_refused(store: BaseStore, after: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="after"):
        await anext(Ctx(store).watch(after=after))


async def test_sessions_hear_their_own_and_the_shared(store: BaseStore) -> None:
    ctx = Ctx(store)
    for session in ("one", "two"):
        with ctx.session(session):
            await store_rows(ctx, f"of-{session}")
    await store_rows(ctx, "shared")
    with ctx.session("one"):
        await store_rows(ctx, "last")
        found = {event.workspace_id.partition("@")[0] for event in await taken(ctx.watch(after="0"), 3)}
    assert found == {"of-one", "shared", "last"}
    assert told(await taken(ctx.watch(after="0"), 1)) == [("created", "shared")]
    with pytest.raises(SessionRequiredError):
        Ctx(store, require_session=True).watch()


async def test_what_made_room_is_told(store: BaseStore) -> None:
    ctx = Ctx(store, max_workspaces_per_session=1)
    await store_rows(ctx, "old")
    await store_rows(ctx, "new")
    found = await taken(ctx.watch(after="0"), 3)
    assert sorted(told(found)) == [("created", "new"), ("created", "old"), ("dropped", "old")]


async def test_waiting_for_a_workspace(store: BaseStore) -> None:
    ctx = Ctx(store)
    waiting = [
        asyncio.create_task(ctx.wait_for_workspace("w", timeout=20)),
        asyncio.create_task(ctx.wait_for_workspace(workspace_type="papers", timeout=20)),
    ]
    await asyncio.sleep(0)
    await ctx.store_workspace(ROWS, workspace_type="notes", workspace_id="other")
    assert not any(task.done() for task in waiting)
    await store_rows(ctx, "w")
    assert [(await task).workspace_id for task in waiting] == ["w", "w"]

    meta = await ctx.wait_for_workspace("w", timeout=20)
    assert meta.item_count == 3
    changed = asyncio.create_task(ctx.wait_for_workspace("w", version=meta.version, timeout=20))
    await asyncio.sleep(0)
    await store.append_items("w", [{"n": 3}])
    assert (await changed).item_count == 4


async def test_waiting_in_vain(store: BaseStore) -> None:
    ctx = Ctx(store)
    await store_rows(ctx, "w")
    with pytest.raises(TimeoutError, match=r"no workspace 'x' within 0\.1 s"):
        await ctx.wait_for_workspace("x", timeout=0.1)
    with pytest.raises(TimeoutError, match="of type 'notes'"):
        await ctx.wait_for_workspace(workspace_type="notes", timeout=0.1)
    with pytest.raises(TimeoutError):
        await ctx.wait_for_workspace("w", workspace_type="notes", timeout=0.1)
    with pytest.raises(ValueError, match="workspace_id"):
        await ctx.wait_for_workspace(version="a.1")


async def test_a_session_waits_for_its_own(store: BaseStore) -> None:
    ctx = Ctx(store)
    with ctx.session("two"):
        await store_rows(ctx, "w")
    with ctx.session("one"):
        with pytest.raises(TimeoutError):
            await ctx.wait_for_workspace(workspace_type="papers", timeout=0.1)
        waiting = asyncio.create_task(ctx.wait_for_workspace(workspace_type="papers", timeout=20))
        ref = await store_rows(ctx, "w")
        assert (await waiting).workspace_id == ref.workspace_id


async def test_stats_count_what_the_caller_sees(store: BaseStore) -> None:
    ctx = Ctx(store)
    assert await ctx.stats() == Stats()
    await store_rows(ctx, "shared")
    for session in ("one", "two"):
        with ctx.session(session):
            await store_rows(ctx, "w")
            await store_rows(ctx, "v")
    chars = (await store.get_meta("shared")).chars  # type: ignore[union-attr]
    everything = await ctx.stats()
    assert (everything.sessions, everything.workspaces, everything.pending_calls) == (2, 5, 0)
    assert everything.chars_kept_out == everything.bytes == 5 * chars
    with ctx.session("one"):
        own = await ctx.stats()
    assert (own.sessions, own.workspaces, own.bytes) == (1, 3, 3 * chars)


async def test_appends_count_for_the_session_too(store: BaseStore) -> None:
    limits = Limits(max_session_bytes=60)
    for name in ("old", "new"):
        await store.replace(WorkspaceMeta(name, "papers", limits=limits), Payload(ROWS))  # 21 bytes each
    await store.append_items("new", [{"n": 3}])
    assert await store.list_workspaces() == ["old", "new"]
    await store.append_items("new", [{"n": 4}, {"n": 5}])
    assert await store.list_workspaces() == ["new"]
    with pytest.raises(QuotaExceededError):
        await store.append_items("new", [{"text": "x" * 60}])
    assert await store.count_items("new") == 6
    await store.delete_items("new", [0])
    assert await store.count_items("new") == 5


async def test_closing_ends_watching(store: BaseStore) -> None:
    ctx = Ctx(store)
    watching = asyncio.ensure_future(anext(ctx.watch()))
    waiting = asyncio.ensure_future(ctx.wait_for_workspace("never"))

    async def ended() -> bool:
        await store.aclose()
        return watching.done() and waiting.done()

    await until(ended, what="both have ended")
    for task in (watching, waiting):
        with pytest.raises(RuntimeError, match="closed while it was watched"):
            await task


async def test_outside_any_session_all_of_them_are_waited_for(store: BaseStore) -> None:
    ctx = Ctx(store)
    by_type = asyncio.create_task(ctx.wait_for_workspace(workspace_type="papers", timeout=20))
    await asyncio.sleep(0)
    with ctx.session("one"):
        ref = await store_rows(ctx, "w")
    meta = await by_type
    assert meta.workspace_id == ref.workspace_id
    changed = asyncio.create_task(ctx.wait_for_workspace(meta.workspace_id, version=meta.version, timeout=20))
    await asyncio.sleep(0)
    await store.append_items(meta.workspace_id, [{"n": 3}])
    assert (await changed).item_count == 4


async def test_in_a_session_a_name_means_its_own_workspace_first(store: BaseStore) -> None:
    ctx = Ctx(store)
    with ctx.session("one"):
        waiting = asyncio.create_task(ctx.wait_for_workspace("w", timeout=20))
        await asyncio.sleep(0)
        own = await store_rows(ctx, "w")
        assert (await waiting).workspace_id == own.workspace_id != "w"
    await store_rows(ctx, "w")
    with ctx.session("one"):
        assert (await ctx.wait_for_workspace("w", timeout=0)).workspace_id == own.workspace_id
    with ctx.session("two"):
        assert (await ctx.wait_for_workspace("w", timeout=0)).workspace_id == "w"


async def test_a_look_without_waiting(store: BaseStore) -> None:
    ctx = Ctx(store)
    with pytest.raises(TimeoutError):
        await ctx.wait_for_workspace("w", timeout=0)
    await store_rows(ctx, "w")
    assert (await ctx.wait_for_workspace("w", timeout=0)).item_count == 3


async def test_many_events_of_two_spaces_come_in_order(store: BaseStore) -> None:
    ctx = Ctx(store)
    with ctx.session("one"):
        own = await store_rows(ctx, "own")
        for number in range(150):
            await store.append_items(own.workspace_id, [number])
    await store_rows(ctx, "shared")
    with ctx.session("one"):
        found = await taken(ctx.watch(after="0"), 152)
        assert [event.at for event in found] == sorted(event.at for event in found)
        assert found[-1].workspace_id == "shared"
        middle = found[70].id
        assert await taken(ctx.watch(after=middle), 81) == found[71:]
    with ctx.session("two"), pytest.raises(InvalidArgumentError):
        await anext(ctx.watch(after=middle))


async def test_closing_a_ctx_ends_what_it_watches_on_a_store_of_the_users(store: BaseStore) -> None:
    ctx, other = Ctx(store), Ctx(store)
    watching = asyncio.ensure_future(anext(ctx.watch()))
    waiting = asyncio.ensure_future(ctx.wait_for_workspace("never"))
    await until(lambda: len(ctx._watching) == 2, what="both wait")
    going_on = asyncio.ensure_future(anext(other.watch(after="0")))
    await ctx.aclose()
    for task in (watching, waiting):
        with pytest.raises(RuntimeError, match="was closed while it was watched"):
            await task
    with pytest.raises(RuntimeError, match="closed"):
        ctx.watch()
    await store_rows(other, "w")
    assert (await going_on).workspace_id == "w"


async def test_an_expired_workspace_is_none_for_those_who_store(store: BaseStore) -> None:
    ctx = Ctx(store)
    await store_rows(ctx, "keep")
    await store_rows(ctx, "short", ttl=0.05)

    async def is_gone() -> bool:
        return await store.get_meta("short") is None

    limited = Ctx(store, max_workspaces_per_session=2)
    await until(is_gone, what="it expires")
    await store_rows(limited, "new")
    assert await store.list_workspaces() == ["keep", "new"]
    await limited.store_workspace([1], workspace_type="other", workspace_id="short")
    kinds = [event.kind for event in await taken(ctx.watch(after="0"), 5)]
    assert kinds.count("replaced") == 0


async def test_who_waits_looks_only_when_it_concerns_him(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = Ctx(store)
    looks = 0
    listed = store.list

    async def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return await listed(*arguments)

    monkeypatch.setattr(store, "list", counted)
    with ctx.session("one"):
        waiting = asyncio.create_task(ctx.wait_for_workspace(workspace_type="papers", timeout=20))
        await until(lambda: looks == 2, what="it waits")
        for number in range(30):
            await ctx.store_workspace([number], workspace_type="notes")
        await store_rows(ctx, "w")
        assert (await waiting).workspace_type == "papers"
    assert looks == 3


async def test_a_closed_ctx_watches_no_more_whenever_it_was_closed(store: BaseStore) -> None:
    ctx = Ctx(store)
    not_begun = ctx.watch(after="0")
    for turns in range(8):
        closing = Ctx(store)
        waiting = asyncio.ensure_future(closing.wait_for_workspace("never", timeout=20))
        for _ in range(turns):
            await asyncio.sleep(0)
        await closing.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await waiting
    await ctx.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await anext(not_begun)


async def test_many_events_do_not_hide_the_one_that_is_waited_for(store: BaseStore) -> None:
    ctx = Ctx(store)
    with ctx.session("one"):
        other = await ctx.store_workspace([0], workspace_type="notes")
        waiting = asyncio.create_task(ctx.wait_for_workspace("wanted", timeout=30))
        await asyncio.sleep(0)

        def in_another_thread() -> None:
            with ctx.session("one"):
                ctx.blocking.store_workspace([1], workspace_type="papers", workspace_id="wanted")

        await asyncio.to_thread(in_another_thread)
        for number in range(120):
            await store.append_items(other.workspace_id, [number])
        assert (await waiting).workspace_type == "papers"
        await asyncio.to_thread(store.blocking.aclose)


@pytest.mark.parametrize("wanted", [5, "", b"w"])
async def test_an_id_is_a_text(store: BaseStore, wanted: Any) -> None:
    for session in (None, "one"):
        with Ctx(store).session(session), pytest.raises(InvalidArgumentError):
            await Ctx(store).wait_for_workspace(wanted, workspace_type="papers", timeout=0)
    with pytest.raises(ValueError, match="workspace_id"):
        await Ctx(store).wait_for_workspace(workspace_type="")
