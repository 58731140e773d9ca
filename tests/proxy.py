"""A proxy between a store and a real server: it delays replies, loses or changes them, and counts round trips."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes both ways on the loopback.

    `delay` seconds are added to every reply. With `lose_replies` above 0, that many replies are swallowed and their
    connection is cut: the server has done the work and the caller does not know. `trips` counts requests that the
    caller waited on, as bursts of bytes from it that were followed by a reply. `requests` and `replies` are words that
    are replaced on the way, by words of the same length in requests.
    """

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (target.hostname or "127.0.0.1", target.port or 6379)
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.delay = 0.0
        self.lose_replies = 0
        self.lost = 0
        self.trips = 0
        self.requests: dict[bytes, bytes] = {}
        self.replies: dict[bytes, bytes] = {}

    async def point_to(self, url: str) -> None:
        """Stands in front of another server from now on; callers lose their connections."""
        target = urlsplit(url)
        self._target = (target.hostname or "127.0.0.1", target.port or 6379)
        await self.stop()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except BaseException:
            writer.close()
            self._tasks.discard(task)
            raise
        back = asyncio.ensure_future(self._back(server_reader, writer))
        try:
            while chunk := await reader.read(1 << 20):
                server_writer.write(_replaced(chunk, self.requests))
                await server_writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # a cancelled connection of a test is one that ends
        finally:
            back.cancel()
            writer.close()
            server_writer.close()
            self._tasks.discard(task)
            await asyncio.gather(back, writer.wait_closed(), server_writer.wait_closed(), return_exceptions=True)

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 20):
            self.trips += 1
            if self.lose_replies > 0:
                self.lose_replies -= 1
                self.lost += 1
                break
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(_replaced(chunk, self.replies))
            await writer.drain()
        writer.close()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _replaced(chunk: bytes, words: dict[bytes, bytes]) -> bytes:
    for before, after in words.items():
        chunk = chunk.replace(before, after)
    return chunk


@asynccontextmanager
async def proxied(url: str, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """A proxy in front of the server at `url`; its own address is `proxy.url`. With `tls` callers must speak TLS."""
    proxy = Proxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.url = f"{'rediss' if tls else 'redis'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
