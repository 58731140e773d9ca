"""Writes the data of a workspace to Redis as a new generation, chunk by chunk, before anybody can see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import anyio

from toolstash.contracts import Limits
from toolstash.errors import StoreUnavailableError
from toolstash.store.background import Background
from toolstash.store.payload import Payload
from toolstash.wire import keys as layout
from toolstash.wire import scripts
from toolstash.wire.connection import Connections
from toolstash.wire.keys import WorkspaceKeys

CHUNKS_IN_FLIGHT = 4


class GenerationWriter:
    """One payload on its way into a generation of its own. Use it as a context: leaving with an error discards it."""

    def __init__(self, connections: Connections, background: Background, at: WorkspaceKeys, payload: Payload) -> None:
        self.generation = layout.new_generation()
        self._connections = connections
        self._background = background
        self._at = at
        self._payload = payload

    async def __aenter__(self) -> GenerationWriter:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            call = scripts.discard(self._at, self._payload.kind, self.generation)
            self._background.later(self._connections.run(call))

    async def write(self, limits: Limits) -> list[scripts.ScriptCall]:
        """Sends all chunks but the last few, which are returned to be sent together with the commit.

        While some are on their way, the next are encoded. What a slow stream has written so far is kept alive.

        Raises:
            PayloadTooLargeError, UnstorableValueError: From the payload.
            StoreUnavailableError: The server does not answer, is full, or lost a chunk.
        """
        async with self._kept_alive():
            return await self._put_chunks(limits)

    async def _put_chunks(self, limits: Limits) -> list[scripts.ScriptCall]:
        waiting: list[scripts.ScriptCall] = []
        sending: asyncio.Task[None] | None = None
        first = 0
        try:
            async with aclosing(self._payload.chunks(limits)) as chunks:
                async for chunk in chunks:
                    if len(waiting) >= CHUNKS_IN_FLIGHT or (waiting and self._payload.is_stream):
                        if sending is not None:
                            await sending
                        sending = asyncio.get_running_loop().create_task(self._put(waiting))
                        waiting = []
                    waiting.append(scripts.put(self._at, self._payload.kind, self.generation, first, chunk.documents))
                    first += chunk.parts
            if sending is not None:
                await sending
        finally:
            if sending is not None and not sending.done():
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        return waiting

    async def _put(self, calls: list[scripts.ScriptCall]) -> None:
        if -1 in await self._connections.run_all(calls):
            raise StoreUnavailableError("The data store lost a part of the result while it was being written.")

    @asynccontextmanager
    async def _kept_alive(self) -> AsyncGenerator[None]:
        if not self._payload.is_stream:
            yield
            return
        task = asyncio.get_running_loop().create_task(self._keep_alive())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_alive(self) -> None:
        while True:
            await anyio.sleep(layout.UNFINISHED_MS / 3000)
            await self._connections.run(scripts.keep(self._at, self._payload.kind, self.generation))
