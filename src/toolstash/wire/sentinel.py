"""A service behind Redis Sentinel as one more server: who is its primary is asked for before each new connection."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any, cast

import anyio
from redis import exceptions as redis_errors
from redis.asyncio.sentinel import MasterNotFoundError, SentinelConnectionPool

from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.settings import Settings
from toolstash.wire import faults
from toolstash.wire.server import Command, Server, cut
from toolstash.wire.source import Source

Place = tuple[str, int]

_LOST = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)
_REFUSED = (redis_errors.AuthenticationError, redis_errors.NoPermissionError)
_LOOK_SECONDS = 1.0
_DOWN = {"s_down", "o_down"}


class WatchedServer(Server):
    """The connections of one event loop to the primary of a service, whichever server that is."""

    def __init__(self, source: Source, settings: Settings) -> None:
        self._sentinels = _Sentinels(source, settings)
        arguments = {**source.arguments, "service_name": source.service, "sentinel_manager": self._sentinels}
        super().__init__(source.connection_class, arguments, settings, pool_class=_PrimaryPool)

    async def trip(self, key: Any, commands: Sequence[Command]) -> list[Any]:
        """As of `Server`. After a fault no old connection is used again, so that the next trip finds the primary."""
        try:
            replies = await super().trip(key, commands)
        except _LOST:
            await self.forget_idle()
            raise
        if any(isinstance(reply, Exception) and faults.is_passing(reply) for reply in replies):
            await self.forget_idle()
        return replies

    async def close(self) -> None:
        """Closes all connections, those to the sentinels too."""
        await asyncio.gather(super().close(), self._sentinels.close())

    def abandon(self) -> None:
        """Closes sockets whose loop ended without shutting down."""
        super().abandon()
        self._sentinels.abandon()


class _PrimaryPool(SentinelConnectionPool):
    """Asks for the primary not only before it connects, but every second in which it is used.

    A primary that was replaced hears of it up to ten seconds later, and what it takes until then is lost.
    """

    _looked_at = 0.0

    async def ensure_connection(self, connection: Any) -> None:
        if connection.is_connected:
            await self._look_again()
            if (connection.host, connection.port) != cast(Any, self).master_address:
                await cut(connection)
        await super().ensure_connection(connection)

    async def _look_again(self) -> None:
        """Sentinels that do not answer are no reason to leave a primary that does, nor to wait long."""
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        with (
            contextlib.suppress(ToolstashError, redis_errors.RedisError, OSError),
            anyio.move_on_after(cast(_Sentinels, self.sentinel_manager).seconds / 10),
        ):
            await self.get_master_address()
        self._looked_at = time.monotonic()


class _Sentinels:
    """Knows where the primary is: what a pool of redis-py calls its sentinel manager.

    redis-py's own asks with a connection for each caller, loses sentinels from its list when callers ask at the same
    time, and reports a refused password and an unknown service as a primary that is away.
    """

    def __init__(self, source: Source, settings: Settings) -> None:
        self._source = source
        self.seconds = settings.command_timeout_seconds
        self._servers = [Server(one.connection_class, one.arguments, settings) for one in source.sentinels]
        self._asking = asyncio.Lock()
        self._answers = 0
        self._primary: Place = ("", 0)

    async def discover_master(self, service_name: str) -> Place:
        """Where the primary of the service is. Who asks while somebody else does gets the same answer.

        Raises:
            StoreUnavailableError: The sentinels do not know the service; names it.
            MasterNotFoundError: No sentinel answered, or none knows of a primary that is up.
        """
        answers_before = self._answers
        with anyio.fail_after(self.seconds):
            async with self._asking:
                if self._answers == answers_before:
                    self._primary = await self._ask_in_turn(service_name)
                    self._answers += 1
                return self._primary

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers))

    def abandon(self) -> None:
        for server in self._servers:
            server.abandon()

    async def _ask_in_turn(self, service: str) -> Place:
        """Asks until one knows; that one comes first the next time."""
        is_known, missed = False, list[Exception]()
        for server in list(self._servers):
            try:
                place, state = await self._ask(server, service)
            except (*_LOST, redis_errors.NoPermissionError) as fault:
                missed.append(fault)
                continue
            is_known = is_known or place is not None
            if place is not None and self._is_up(place, state):
                self._servers.remove(server)
                self._servers.insert(0, server)
                return self._source.address_remap(place) if self._source.address_remap else place
        raise _no_primary(service, is_known, len(missed) < len(self._servers), missed)

    async def _ask(self, server: Server, service: str) -> tuple[Place | None, dict[bytes, bytes]]:
        """Where one sentinel says that the primary is, and how the last one is that was settled.

        It has so little time that sentinels which do not answer, all asked twice, take no longer than a command may.
        """
        with anyio.fail_after(self.seconds / (2 * len(self._servers))):
            words = ("GET-MASTER-ADDR-BY-NAME", "MASTER")
            address, state = await server.trip("", [("SENTINEL", word, service) for word in words])
        if isinstance(address, Exception):
            raise address
        place = (address[0].decode(), int(address[1])) if address else None
        return place, {} if isinstance(state, Exception) else dict(zip(state[::2], state[1::2], strict=True))

    def _is_up(self, place: Place, state: dict[bytes, bytes]) -> bool:
        if int(state.get(b"num-other-sentinels", 0)) < self._source.least_other_sentinels:
            return False
        settled = (state.get(b"ip", b"").decode(), int(state.get(b"port", 0)))
        return settled != place or _DOWN.isdisjoint(state[b"flags"].decode().split(","))


def _no_primary(service: str, is_known: bool, has_answer: bool, missed: list[Exception]) -> Exception:
    if not is_known and any(isinstance(fault, _REFUSED) for fault in missed):
        return StoreUnavailableError(
            "The sentinels of the data store refused access.",
            suggested_action="Tell the user that the user name, password or rights for the sentinels need attention.",
        )
    if has_answer and not is_known:
        return StoreUnavailableError(
            f"The sentinels of the data store know no service {service!r}.",
            suggested_action="Tell the user that the data store's URL needs attention.",
        )
    return _unknown_primary(has_answer, missed)


def _unknown_primary(has_answer: bool, missed: list[Exception]) -> Exception:
    """An outage, unless nothing but certificates or files of ours kept every sentinel from being asked."""
    error = MasterNotFoundError("no primary is up" if has_answer else "no sentinel answered")
    if not has_answer:
        error.__cause__ = next((fault for fault in missed if faults.is_passing(fault)), missed[0])
    return error
