"""Which session a label stands for: what is remembered is bounded, and what is missing is not looked for each time."""

from __future__ import annotations

import secrets

import pytest

from tests.proxy import proxied
from tests.servers import shared_server
from toolstash import RedisStore, WorkspaceMeta
from toolstash.store import registry
from toolstash.store.payload import Payload
from toolstash.wire import keys as layout


async def put(store: RedisStore, session: str) -> str:
    """The label of a session that has a workspace now."""
    await store.replace(WorkspaceMeta("w", "papers", session_id=session, ttl=60.0), Payload([1]))
    return layout.label_of(layout.space_of_session(session))


async def test_a_missing_label_is_looked_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        proxied(shared_server("valkey").url) as proxy,
        RedisStore(proxy.url, prefix=f"t{secrets.token_hex(5)}") as store,
    ):
        await store.ping()
        before = proxy.trips
        assert [await store.find_space("0123456789ab") for _ in range(5)] == [None] * 5
        assert proxy.trips == before + 1
        monkeypatch.setattr(registry, "MISSING_SECONDS", -1.0)
        assert [await store.find_space("ba9876543210") for _ in range(3)] == [None] * 3
        assert proxy.trips == before + 4


async def test_a_session_that_begins_here_is_found_at_once() -> None:
    async with RedisStore(shared_server("valkey").url, prefix=f"t{secrets.token_hex(5)}") as store:
        space = layout.space_of_session("ann")
        label = layout.label_of(space)
        assert await store.find_space(label) is None
        assert await put(store, "ann") == label
        assert await store.find_space(label) == space
        await store.clear()


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MOST_LABELS", 3)
    async with RedisStore(shared_server("valkey").url, prefix=f"t{secrets.token_hex(5)}") as store:
        labels = {await put(store, f"s{number}"): f"s{number}" for number in range(8)}
        for label, session in labels.items():
            assert await store.find_space(label) == layout.space_of_session(session)
            assert label in store._registry._spaces
            assert len(store._registry._spaces) <= 3
        for number in range(8):
            assert await store.find_space(f"{number:012}") is None
            assert len(store._registry._missing) <= 3
        await store.clear()
