"""Processes that share their calls on one server (`url`), and the book in which their tools write (on a Valkey)."""

from __future__ import annotations

from functools import partial
from typing import Any

import redis.asyncio

from tests.chaos.asker import Asker, Book
from tests.servers import shared_server
from tests.wait import until
from toolstash import RedisStore
from toolstash.store.call_record import CallRecord

SHORT = {"lease_ms": 1_200, "look_again_seconds": 0.2}
"""The ways of processes whose leases end soon after they are lost."""


class Office:
    """A test's own processes."""

    def __init__(self, url: str, prefix: str, client: redis.asyncio.Redis) -> None:
        self.url = url
        self.prefix = prefix
        self.book = Book(client, url, prefix)
        self._made: list[Asker] = []

    def asker(self, **ways: Any) -> Asker:
        """One more process."""
        self._made.append(Asker(self.url, shared_server("valkey").url, self.prefix, **ways))
        return self._made[-1]

    def worker(self, **ways: Any) -> Asker:
        """One that goes on with answered calls."""
        made = self.asker(**ways)
        made.begin("resume_answered")
        return made

    async def knows(self, call_id: str) -> None:
        """Waits until a call outside any session is in the store."""
        await until(partial(self._record, call_id), what=f"the call {call_id!r} is known")

    async def forgets(self, call_id: str) -> None:
        """Waits until the lease of a running call is over, and it is no longer there."""

        async def is_gone() -> bool:
            return await self._record(call_id) is None

        await until(is_gone, what=f"the call {call_id!r} is gone")

    async def _record(self, call_id: str) -> CallRecord | None:
        async with RedisStore(self.url, prefix=self.prefix) as store:
            return (await store.calls.look(store.place(call_id, "", None))).record

    def close(self) -> None:
        """Ends those that are left."""
        for one in self._made:
            one.discard()
