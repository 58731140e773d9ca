"""What keeps running calls registered begins again with the next call, and hears when a call was taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from tests.wait import until
from toolstash import Ctx, StoreUnavailableError
from toolstash.contracts import Address
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import Lease, Noted
from toolstash.store.signal import Signal
from toolstash.tools import overseer
from toolstash.tools.control import Control
from toolstash.tools.overseer import Held
from toolstash.wire import keys as layout

NOBODY = Noted(None, 0, is_held=False, now=0.0)


async def registered(ctx: Ctx, name: str) -> Held:
    """A call that runs here."""
    at = Address("shared", name)
    record = CallRecord(tool="t", owner=f"owner of {name}", inbox=ctx.overseer.inbox)
    assert await ctx.store.calls.swap(at, NOBODY, record)
    return Held(at, record.owner, Control(None), record)


async def test_a_call_that_begins_in_the_moment_in_which_the_last_one_ends_is_overseen(ctx: Ctx) -> None:
    first, second = await registered(ctx, "first"), await registered(ctx, "second")
    ctx.overseer.hold(first)
    await asyncio.sleep(0)
    ctx.overseer.let_go(first)
    ctx.overseer.hold(second)
    await ctx.cancel("second")
    await until(second.control.signal.is_set, what="the second call is told to stop")
    assert not first.control.signal.is_set()
    ctx.overseer.let_go(second)


async def test_a_call_that_was_taken_over_before_its_lease_was_ever_renewed_is_stopped(
    ctx: Ctx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FLIGHT_MS", 300)
    held = await registered(ctx, "lost")
    seen = await ctx.store.calls.look(held.at)
    assert await ctx.store.calls.swap(held.at, seen, CallRecord(tool="t", owner="another"))
    ctx.overseer.hold(held)
    await until(held.control.signal.is_set, what="the call is told that it was taken over")
    ctx.overseer.let_go(held)
    assert held.control.signal.is_set()


async def test_leases_are_renewed_at_once_after_the_store_was_away(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overseer, "OUTAGE_PAUSE_SECONDS", 0.0)
    listening, renewed = ctx.store.listening, list[str]()
    monkeypatch.setattr(ctx.store, "listening", away)
    held = await registered(ctx, "mine")
    ctx.overseer.hold(held)
    await asyncio.sleep(0)
    keep = ctx.store.calls.keep

    async def noted(leases: Sequence[Lease]) -> list[int]:
        renewed.extend(lease.owner for lease in leases)
        return await keep(leases)

    monkeypatch.setattr(ctx.store.calls, "keep", noted)
    monkeypatch.setattr(ctx.store, "listening", listening)
    await until(lambda: renewed == [held.owner], within=3, what="the lease is renewed")
    ctx.overseer.let_go(held)
    assert not held.control.signal.is_set()


def away(_: Sequence[str]) -> AbstractAsyncContextManager[Signal]:
    raise StoreUnavailableError("The store is away.")
