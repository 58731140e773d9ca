"""Processes that share their calls on one server (`url`), and the book in which their tools write (on a Valkey)."""

from __future__ import annotations

from typing import Any

import redis.asyncio

from tests.chaos.asker import Asker, Book
from tests.servers import shared_server
from tests.wait import until
from toolstash import RedisStore
from toolstash.store.call_record import CallRecord


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

    async def knows(self, call_id: str) -> CallRecord:
        """Waits until a call outside any session is in the store."""
        async with RedisStore(self.url, prefix=self.prefix) as store:

            async def record() -> CallRecord | None:
                return (await store.calls.look(store.place(call_id, "", None))).record

            return await until(record, what=f"the call {call_id!r} is known")

    def close(self) -> None:
        """Ends those that are left."""
        for one in self._made:
            one.discard()
