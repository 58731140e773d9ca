"""The one owner of connections to Redis: of one server (`server.py`, `sentinel.py`) or of a cluster (`cluster.py`).

A pool belongs to one process and one event loop: a fork, a second `asyncio.run` or a test client per request get
their own. Waiting for a free connection is bounded, and so is every command. redis-py's own retry is off, because
it repeats writes blindly; ours repeats scripts, each of which does its work once however often it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace as with_changes
from typing import Any, TypeVar, cast
from weakref import WeakSet

import anyio
import anyio.to_thread
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from toolstash.blocking import door_loop
from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.settings import Settings
from toolstash.tracing import Span, server_attributes, store_batch, store_trip
from toolstash.wire import embedded, faults
from toolstash.wire.cluster import Cluster
from toolstash.wire.outage_log import OutageLog
from toolstash.wire.scripts import ScriptCall
from toolstash.wire.sentinel import WatchedServer
from toolstash.wire.server import Command, Server
from toolstash.wire.source import Source

T = TypeVar("T")
Client = Server | Cluster

_MANY_RETRIES = 1_000  # the deadline ends them
_MOST_WAITING = 10_000  # waiting commands at a time; each has a connection
_inherited: list[_LoopPool] = []  # pools of a parent process: kept, so that nothing of its loops is collected
_live: WeakSet[Connections] = WeakSet()


class Connections:
    """Runs scripts and commands on one server or one cluster.

    Args:
        source: Where to connect to.
        settings: Bounds: connections, waiting for one, time of a command.
    """

    def __init__(self, source: Source, settings: Settings) -> None:
        self.source = source
        self._settings = settings
        self._traced = server_attributes(source.arguments)
        self._outages = OutageLog(source.described)
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._lock = threading.Lock()
        _live.add(self)

    async def run(self, call: ScriptCall) -> Any:
        """Runs one script, whose keys lie in one slot, in one round trip (two when the server does not know it yet)."""
        with store_trip(self._traced, call.script.name, is_script=True) as span:
            return await self._bounded(lambda client: _evaluate(client, call), span)

    async def run_all(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Runs scripts in order in one round trip, each for itself (not a transaction).

        On a cluster it is one trip for each run of neighbours in one slot; the next begins when the last is done.
        """
        span = store_batch(self._traced, "PIPELINE", lambda: [call.script.name for call in calls], are_scripts=True)
        with span:
            return await self._bounded(lambda client: _evaluate_all(client, calls), span)

    async def together(self, commands: Iterable[Command]) -> list[Any]:
        """Runs reading commands on keys of one slot as one transaction (MULTI), in one round trip."""
        listed = list(commands)
        with store_batch(self._traced, "MULTI", lambda: [command[0] for command in listed]) as span:
            return await self._bounded(lambda client: _transaction(client, listed), span)

    async def command(self, *words: Any) -> Any:
        """Runs one plain command that is safe to repeat; its first argument is its key."""
        with store_trip(self._traced, words[0]) as span:
            return await self._bounded(lambda client: _execute(client, *words), span)

    async def pipelined(self, key: str, commands: Sequence[Command], *, seconds: float) -> list[Any]:
        """Runs commands in order in one trip to the node that holds `key`, once: what a node has taken is not repeated.

        Replies are raw (bytes, integers, lists). A refused command has a `CommandRefused` in its place; the others
        are done.

        Raises:
            StoreUnavailableError: No answer within `seconds` (or the store's time limit of a command, if that is less),
                or the way to the server broke. The connection is dropped; what was sent may have been done.
        """
        with store_batch(self._traced, "PIPELINE", lambda: [command[0] for command in commands]):
            return await self._within(seconds, lambda client: client.trip(key, commands))

    async def everywhere(self, command: Command, *, seconds: float) -> list[Any]:
        """Runs one command that concerns no key on every primary; the replies, as of `pipelined`.

        Raises:
            StoreUnavailableError: As of `pipelined`.
        """
        with store_trip(self._traced, command[0]):
            return await self._within(seconds, lambda client: client.trip_to_all(command))

    async def wait(self, key: str, command: Command) -> Any:
        """Runs one reading command that waits on the server, once, on a connection beside those that calls share.

        Raises:
            StoreUnavailableError: It failed, or did not come back within the time limit of a command.
        """
        started = time.monotonic()
        pool = await self._pool()
        try:
            replies = await pool.waiting.trip(key, [command])
            return _without_errors(replies)[0]
        except Exception as error:
            await pool.waiting.forget_idle()
            await self._revive(pool.waiting)
            raise faults.translate(error, tried_seconds=time.monotonic() - started) from error

    @property
    def command_seconds(self) -> float:
        """The time limit of a command."""
        return self._settings.command_timeout_seconds

    @property
    def is_open(self) -> bool:
        """Whether this process has connected in this event loop."""
        return asyncio.get_running_loop() in self._pools

    async def aclose(self) -> None:
        """Closes the pools of the running loop and of the blocking door, and those of loops that have ended."""
        loop, door = asyncio.get_running_loop(), door_loop()
        pool = self._pools.pop(loop, None)
        if pool is not None:
            await pool.close()
        pool = self._pools.pop(door, None) if door is not None and door is not loop else None
        if pool is not None and door is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.close(), door))
        with self._lock:
            self._drop_ended()

    async def _within(self, seconds: float, work: Callable[[Client], Awaitable[list[Any]]]) -> list[Any]:
        """Does the work once; refusals become values."""
        started = time.monotonic()
        try:
            with anyio.fail_after(seconds):
                replies = await self._once(await self._pool(), work)
        except Exception as error:
            raise faults.translate(error, tried_seconds=time.monotonic() - started) from error
        return [faults.as_value(reply) for reply in replies]

    async def _bounded(self, work: Callable[[Client], Awaitable[T]], span: Span) -> T:
        """Takes a connection, does the work, and repeats it on passing faults until the time is over."""
        pool = await self._pool()
        token = object()
        await pool.take(token, self._settings)
        started = time.monotonic()
        try:
            return await work(pool.client)
        except Exception as error:
            if not faults.is_passing(error):
                raise self._failed(error, started) from error
            fault = error
        finally:
            pool.limiter.release_on_behalf_of(token)
        return await self._again(pool, work, started, fault, span)

    async def _once(self, pool: _LoopPool, work: Callable[[Client], Awaitable[T]]) -> T:
        token = object()
        await pool.take(token, self._settings)
        try:
            return await work(pool.client)
        finally:
            pool.limiter.release_on_behalf_of(token)

    async def _again(
        self, pool: _LoopPool, work: Callable[[Client], Awaitable[T]], started: float, fault: Exception, span: Span
    ) -> T:
        """Repeats the work until the time is over, which cuts off a try under way; the last fault is what is told."""

        async def attempt() -> T:
            span.retry(fault)
            await self._revive(pool.client)
            return await self._once(pool, work)

        async def note(error: Exception) -> None:
            nonlocal fault
            fault = error
            await pool.client.forget_idle()

        backoff = ExponentialWithJitterBackoff(cap=0.5, base=0.02)
        retry = Retry(backoff, _MANY_RETRIES, cast(tuple[type[redis_errors.RedisError]], faults.PASSING))
        left = started + self._settings.command_timeout_seconds - time.monotonic()
        if left > 0:
            with anyio.move_on_after(left):
                try:
                    return await retry.call_with_retry(attempt, note, is_retryable=faults.is_passing)
                except Exception as error:
                    fault = error
        raise self._failed(fault, started) from fault

    def _failed(self, fault: Exception, started: float) -> ToolstashError:
        told = faults.translate(fault, tried_seconds=time.monotonic() - started)
        self._outages.note(told, fault)
        return told

    async def _revive(self, client: Client) -> None:
        if self.source.embedded_directory is not None and isinstance(client, Server):
            client.connection_pool.connection_kwargs["path"] = await self.embedded_socket()

    async def _pool(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is not None:
            return pool
        arguments = dict(self.source.arguments)
        if self.source.embedded_directory is not None:
            arguments["path"] = await self.embedded_socket()
        with self._lock:
            self._drop_ended()
            pool = self._pools.get(loop) or _LoopPool(self.source, arguments, self._settings)
            self._pools[loop] = pool
        await pool.close_with_the_loop()
        return pool

    async def embedded_socket(self) -> str:
        """The socket of the embedded server, which is started if need be.

        Raises:
            ValueError: The source is another server.
        """
        if self.source.embedded_directory is None:
            raise ValueError(f"{self.source.described} is no embedded server, so it has no socket path of ours")
        directory = self.source.embedded_directory or None
        server = await anyio.to_thread.run_sync(embedded.ensure_server, directory)
        return server.socket_path

    def leave_parents_pools(self) -> None:
        """Lets go of a parent process's connections, in the child, without a word to the server or to the loop."""
        self._lock = threading.Lock()
        for pool in self._pools.values():
            with contextlib.suppress(Exception):
                pool.abandon()
        _inherited.extend(self._pools.values())
        self._pools.clear()

    def _drop_ended(self) -> None:
        for loop in list(self._pools):
            pool = self._pools.pop(loop, None) if loop.is_closed() else None
            if pool is not None:
                pool.abandon()


class _LoopPool:
    """The connections of one process and one event loop."""

    def __init__(self, source: Source, arguments: dict[str, Any], settings: Settings) -> None:
        self.client = _client_of(source, arguments, settings)
        many = with_changes(settings, max_connections=_MOST_WAITING)
        self._make_waiting = lambda: _client_of(source, arguments, many)
        self._waiting: Client | None = None
        self.limiter = anyio.CapacityLimiter(settings.max_connections)
        self._guard: AsyncGenerator[None, None] | None = None

    @property
    def waiting(self) -> Client:
        """The connections on which commands wait, made on first use."""
        if self._waiting is None:
            self._waiting = self._make_waiting()
        return self._waiting

    async def take(self, token: object, settings: Settings) -> None:
        """Waits for one of the connections to be free.

        Raises:
            StoreUnavailableError: None was free in time; names the setting.
        """
        try:
            self.limiter.acquire_on_behalf_of_nowait(token)
            return
        except anyio.WouldBlock:
            pass
        try:
            with anyio.fail_after(settings.wait_seconds):
                await self.limiter.acquire_on_behalf_of(token)
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"All {settings.max_connections} connections to the data store were busy for "
                f"{settings.wait_seconds:g} s (max_connections={settings.max_connections}).",
            ) from error

    async def close_with_the_loop(self) -> None:
        """A loop that shuts down closes its async generators: this one closes the pool with it."""
        if self._guard is None:
            self._guard = self._closing()
            await anext(self._guard)

    async def _closing(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            clients = [self.client] if self._waiting is None else [self.client, self._waiting]
            await asyncio.gather(*(client.close() for client in clients))

    async def close(self) -> None:
        if self._guard is not None:
            await self._guard.aclose()

    def abandon(self) -> None:
        """Closes sockets whose loop ended without shutting down; nothing can be awaited on it any more."""
        self.client.abandon()
        if self._waiting is not None:
            self._waiting.abandon()


def _client_of(source: Source, arguments: dict[str, Any], settings: Settings) -> Client:
    if source.sentinels:
        return WatchedServer(source, settings)
    return Cluster(source, settings) if source.nodes else Server(source.connection_class, arguments, settings)


async def _execute(client: Client, *words: Any) -> Any:
    (reply,) = await client.trip(words[1] if len(words) > 1 else "", [words])
    return _without_errors([reply])[0]


async def _evaluate(client: Client, call: ScriptCall) -> Any:
    (reply,) = await client.trip(call.keys[0], [_by_digest(call)])
    if isinstance(reply, redis_errors.NoScriptError):
        (reply,) = await client.trip(call.keys[0], [_by_body(call)])
    return _without_errors([reply])[0]


async def _evaluate_all(client: Client, calls: Sequence[ScriptCall]) -> list[Any]:
    replies: list[Any] = []
    for _, neighbours in itertools.groupby(calls, lambda call: client.slot(call.keys[0])):
        replies += await _evaluate_neighbours(client, list(neighbours))
    return replies


async def _evaluate_neighbours(client: Client, calls: Sequence[ScriptCall]) -> list[Any]:
    replies = await client.trip(calls[0].keys[0], [_by_digest(call) for call in calls])
    for position, reply in enumerate(replies):
        if isinstance(reply, redis_errors.NoScriptError):
            # From the first unknown script on, all are sent again: each does its work once.
            rest = await client.trip(calls[0].keys[0], [_by_body(call) for call in calls[position:]])
            return [*replies[:position], *_without_errors(rest)]
        _without_errors([reply])
    return replies


def _by_digest(call: ScriptCall) -> Command:
    return ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)


def _by_body(call: ScriptCall) -> Command:
    return ("EVAL", call.script.body, len(call.keys), *call.keys, *call.args)


async def _transaction(client: Client, commands: Sequence[Command]) -> list[Any]:
    replies = await client.trip(commands[0][1], [("MULTI",), *commands, ("EXEC",)])
    return _without_errors(_without_errors(replies)[-1])


def _without_errors(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def _leave_parents_connections() -> None:
    """Closed later, by a collector, they would be taken out of the epoll set that the child shares with its parent."""
    for connections in list(_live):
        connections.leave_parents_pools()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parents_connections)
