"""The connections of one event loop to one server: batches of commands go out, raw replies come back in order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import hiredis
from redis import exceptions as redis_errors
from redis.asyncio import ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from toolstash.settings import Settings
from toolstash.wire.causes import NoTlsError, check_own_files

Command = tuple[Any, ...]

CLOSE_SECONDS = 2.0
CUT_SECONDS = 0.2  # what a loop needs at most to see that a transport was cut off


def connection_options(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The user's arguments of a connection with ours: bytes, one protocol, time limits, no repeats by redis-py."""
    return {
        **arguments,
        "protocol": 2,
        "decode_responses": False,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": None,  # a trip has one time limit for all that it does
        "socket_connect_timeout": settings.command_timeout_seconds,
        "driver_info": None,
    }


class Server:
    """One server. Whoever calls it sees to it that no more than `max_connections` are asked for at a time."""

    def __init__(
        self,
        connection_class: type[Any],
        arguments: dict[str, Any],
        settings: Settings,
        *,
        pool_class: type[ConnectionPool] = ConnectionPool,
    ) -> None:
        self._is_closed = False
        self._is_tls = issubclass(connection_class, SSLConnection)
        self._seconds = settings.command_timeout_seconds
        self.connection_pool: Any = pool_class(
            connection_class=connection_class,
            max_connections=settings.max_connections,
            **connection_options(arguments, settings),
        )

    def slot(self, key: Any) -> int:
        """What decides which commands may share a trip: here all of them."""
        return 0

    async def trip(self, key: Any, commands: Sequence[Command]) -> list[Any]:
        """Sends commands at once and returns the reply of each; a refusal stands in its place as the error.

        `key` names the node in a cluster and nothing here.

        Raises:
            TimeoutError: Connecting, sending and receiving took longer than a command may.
        """
        connection = None
        try:
            async with asyncio.timeout(self._seconds):
                connection = await self._connected()
                return await self._exchange(connection, commands)
        except (TimeoutError, redis_errors.TimeoutError) as error:
            if self._is_tls and connection is None:
                raise NoTlsError("no TLS connection in time") from error
            raise

    async def _connected(self) -> Any:
        try:
            return await self.connection_pool.get_connection()
        except redis_errors.RedisError:
            if self._is_tls:
                check_own_files(self.connection_pool.make_connection)
            raise

    async def _exchange(self, connection: Any, commands: Sequence[Command]) -> list[Any]:
        transport = _transport_of(connection)  # redis-py forgets it at once when something fails
        try:
            await connection.send_packed_command([_packed(command) for command in commands])
            return [await _reply(connection) for _ in commands]
        except BaseException:
            _abort(transport)
            await cut(connection)  # replies not read yet must not be those of the next caller
            raise
        finally:
            if self._is_closed:
                await cut(connection)
            await self.connection_pool.release(connection)

    async def trip_to_all(self, command: Command) -> list[Any]:
        """The replies of all primaries to a command without a key: here of the one that there is."""
        return await self.trip("", [command])

    async def forget_idle(self) -> None:
        """Closes idle connections, which may lead nowhere after a fault."""
        for connection in list(self.connection_pool._available_connections):
            await cut(connection)  # waits for nothing, so nobody takes one that is half closed

    async def close(self) -> None:
        """Closes all connections within `CLOSE_SECONDS`, whatever the server does; trips under way lose theirs."""
        self._is_closed = True
        pool = self.connection_pool
        await hang_up([*pool._available_connections, *pool._in_use_connections])

    def abandon(self) -> None:
        """Closes sockets whose loop ended without shutting down; nothing can be awaited on it any more."""
        pool = self.connection_pool
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for connection in itertools.chain(pool._available_connections, pool._in_use_connections):
                writer = getattr(connection, "_writer", None)
                if writer is not None:
                    _close_socket(writer.transport)
                    connection._writer = connection._reader = None
                    del writer


async def cut(connection: Any) -> None:
    """Drops a connection without waiting for anything; over TLS a mere close would wait for the other side."""
    _abort(_transport_of(connection))
    await connection.disconnect(nowait=True)


async def hang_up(connections: Sequence[Any]) -> None:
    """Closes connections, all at once. Those that are not closed within `CLOSE_SECONDS` are cut off. Never raises."""
    transports = [_transport_of(connection) for connection in connections]
    closing = [asyncio.ensure_future(_close_quietly(connection)) for connection in connections]
    if not closing:
        return
    try:
        _, late = await asyncio.wait(closing, timeout=CLOSE_SECONDS)
    finally:
        for transport in transports:
            _abort(transport)
    if late:
        await asyncio.wait(late, timeout=CUT_SECONDS)


async def _close_quietly(connection: Any) -> None:
    with contextlib.suppress(Exception):
        await connection.disconnect()


def _transport_of(connection: Any) -> Any:
    return getattr(getattr(connection, "_writer", None), "transport", None)


def _abort(transport: Any) -> None:
    if hasattr(transport, "abort"):  # that of fakeredis has none
        transport.abort()


def _close_socket(transport: Any) -> None:
    """Closes what is under a transport, which itself would want its loop for that."""
    encrypted = getattr(transport, "_ssl_protocol", None)
    if encrypted is not None:
        transport._closed = True
        transport = encrypted._transport
    transport._closing = True  # or its writer, when it is collected, would ask the loop to let go of it
    if getattr(transport, "_sock", None) is not None:
        transport._sock.close()
        transport._sock = None


def _packed(command: Command) -> bytes:
    return hiredis.pack_command(command)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except redis_errors.ResponseError as error:
        return error
