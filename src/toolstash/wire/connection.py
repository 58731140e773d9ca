"""The one owner of connections to Redis.

A pool belongs to one process and one event loop: a fork, a second `asyncio.run` or a test client per request get
their own. Waiting for a free connection is bounded, and so is every command. redis-py's own retry is off, because
it repeats writes blindly; ours repeats scripts, each of which does its work once however often it is sent.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
from redis import exceptions as redis_errors
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff

from toolstash.blocking import door_loop
from toolstash.errors import StoreUnavailableError
from toolstash.settings import Settings
from toolstash.wire import embedded, faults
from toolstash.wire.scripts import ScriptCall
from toolstash.wire.source import Source

T = TypeVar("T")

_MANY_RETRIES = 1_000  # the deadline ends them
_inherited: list[_LoopPool] = []  # pools of a parent process: kept, so that nothing closes the parent's sockets


class Connections:
    """Runs scripts and commands on one server.

    Args:
        source: Where to connect to.
        settings: Bounds: connections, waiting for one, time of a command.
    """

    def __init__(self, source: Source, settings: Settings) -> None:
        self.source = source
        self._settings = settings
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}
        self._pid = os.getpid()
        self._lock = threading.Lock()

    async def run(self, call: ScriptCall) -> Any:
        """Runs one script in one round trip (two when the server does not know it yet)."""
        return await self._bounded(lambda client: _evaluate(client, call))

    async def run_all(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Runs scripts in order in one round trip, each for itself (not a transaction)."""
        return await self._bounded(lambda client: _evaluate_all(client, calls))

    async def together(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Runs reading commands as one transaction (MULTI), in one round trip."""
        listed = list(commands)
        return await self._bounded(lambda client: _transaction(client, listed))

    async def command(self, *words: Any) -> Any:
        """Runs one plain command that is safe to repeat."""
        return await self._bounded(lambda client: _execute(client, *words))

    @property
    def is_open(self) -> bool:
        """Whether this process has connected in this event loop."""
        return self._pid == os.getpid() and asyncio.get_running_loop() in self._pools

    async def aclose(self) -> None:
        """Closes the pools of the running loop and of the blocking door, and those of loops that have ended."""
        loop, door = asyncio.get_running_loop(), door_loop()
        pool = self._pools.pop(loop, None)
        if pool is not None and self._pid == os.getpid():
            await pool.close()
        pool = self._pools.pop(door, None) if door is not None and door is not loop else None
        if pool is not None and door is not None and self._pid == os.getpid():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.close(), door))
        self._drop_ended()

    async def _bounded(self, work: Callable[[Redis], Awaitable[T]]) -> T:
        """Takes a connection, does the work, and repeats it on passing faults until the time is over."""
        pool = await self._pool()
        started = time.monotonic()
        deadline = started + self._settings.command_timeout_seconds
        token = object()
        await pool.take(token, self._settings)
        try:
            return await _not_outliving_a_cancel(work(pool.client))
        except Exception as error:
            if not faults.is_passing(error):
                raise faults.translate(error, tried_seconds=time.monotonic() - started) from error
        finally:
            pool.limiter.release_on_behalf_of(token)
        return await self._again(pool, work, started, deadline)

    async def _again(
        self, pool: _LoopPool, work: Callable[[Redis], Awaitable[T]], started: float, deadline: float
    ) -> T:
        async def attempt() -> T:
            await self._revive(pool)
            token = object()
            await pool.take(token, self._settings)
            try:
                return await _not_outliving_a_cancel(work(pool.client))
            finally:
                pool.limiter.release_on_behalf_of(token)

        async def forget_connections(_: Exception) -> None:
            await pool.client.connection_pool.disconnect(inuse_connections=False)

        backoff = ExponentialWithJitterBackoff(cap=0.5, base=0.02)
        retry = Retry(backoff, _MANY_RETRIES, cast(tuple[type[redis_errors.RedisError]], faults.PASSING))
        try:
            return await retry.call_with_retry(
                attempt,
                forget_connections,
                is_retryable=lambda error: faults.is_passing(error) and time.monotonic() < deadline,
            )
        except Exception as error:
            raise faults.translate(error, tried_seconds=time.monotonic() - started) from error

    async def _revive(self, pool: _LoopPool) -> None:
        if self.source.embedded_directory is not None:
            pool.client.connection_pool.connection_kwargs["path"] = await self._embedded_socket()

    async def _pool(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is not None and pool.pid == os.getpid():
            return pool
        arguments = dict(self.source.arguments)
        if self.source.embedded_directory is not None:
            arguments["path"] = await self._embedded_socket()
        with self._lock:
            self._leave_parents_pools()
            self._drop_ended()
            pool = self._pools.get(loop) or _LoopPool(self.source, arguments, self._settings)
            self._pools[loop] = pool
        await pool.close_with_the_loop()
        return pool

    async def _embedded_socket(self) -> str:
        directory = self.source.embedded_directory or None
        server = await anyio.to_thread.run_sync(embedded.ensure_server, directory)
        return server.socket_path

    def _leave_parents_pools(self) -> None:
        if self._pid != os.getpid():
            _inherited.extend(self._pools.values())
            self._pools.clear()
            self._pid = os.getpid()

    def _drop_ended(self) -> None:
        for loop in [loop for loop in self._pools if loop.is_closed()]:
            self._pools.pop(loop).abandon()


class _LoopPool:
    """The connections of one process and one event loop."""

    def __init__(self, source: Source, arguments: dict[str, Any], settings: Settings) -> None:
        self.pid = os.getpid()
        pool = ConnectionPool(
            connection_class=source.connection_class,
            max_connections=settings.max_connections * 2,
            protocol=2,
            decode_responses=False,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=settings.command_timeout_seconds,
            socket_connect_timeout=settings.command_timeout_seconds,
            driver_info=None,
            **arguments,
        )
        self.client: Redis = Redis(connection_pool=pool)
        self.limiter = anyio.CapacityLimiter(settings.max_connections)
        self._guard: AsyncGenerator[None, None] | None = None

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
            await self.client.connection_pool.disconnect()

    async def close(self) -> None:
        if self._guard is not None:
            await self._guard.aclose()

    def abandon(self) -> None:
        """Closes sockets whose loop ended without shutting down; nothing can be awaited on it any more."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            pool: Any = self.client.connection_pool
            for connection in itertools.chain(pool._available_connections, pool._in_use_connections):
                writer = getattr(connection, "_writer", None)
                if writer is not None:
                    writer.transport._sock.close()
                    writer.transport._sock = None
                    connection._writer = connection._reader = None
                    del writer


async def _not_outliving_a_cancel(work: Awaitable[T]) -> T:
    """Raises a cancellation that arrived while the work was done and was lost on the way.

    `asyncio.wait_for`, which redis-py sends with, drops it up to Python 3.11 when the inner work ends at that moment.
    """
    task = asyncio.current_task()
    assert task is not None
    cancels_before = task.cancelling()
    result = await work
    if task.cancelling() > cancels_before:
        raise asyncio.CancelledError
    return result


async def _execute(client: Redis, *words: Any) -> Any:
    return await cast(Any, client).execute_command(*words)


async def _evaluate(client: Redis, call: ScriptCall) -> Any:
    try:
        return await _execute(client, "EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)
    except redis_errors.NoScriptError:
        return await _execute(client, "EVAL", call.script.body, len(call.keys), *call.keys, *call.args)


async def _evaluate_all(client: Redis, calls: Sequence[ScriptCall]) -> list[Any]:
    pipeline: Any = client.pipeline(transaction=False)
    for call in calls:
        pipeline.execute_command("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)
    replies: list[Any] = await pipeline.execute(raise_on_error=False)
    for position, reply in enumerate(replies):
        if isinstance(reply, redis_errors.NoScriptError):
            # From the first unknown script on, all are sent again: each does its work once.
            rest = [await _evaluate(client, call) for call in calls[position:]]
            return [*replies[:position], *rest]
        if isinstance(reply, Exception):
            raise reply
    return replies


async def _transaction(client: Redis, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    pipeline: Any = client.pipeline(transaction=True)
    for words in commands:
        pipeline.execute_command(*words)
    return await pipeline.execute()
