"""Single flight: workers that make the same workspace at the same time run its producer once.

One of them leads: it holds the lease of the workspace, runs, and leaves the outcome to those who came meanwhile. They
share it when session, workspace, producer and arguments are all the same; with other arguments they wait and then run
themselves. When the leader is killed or cancelled, another one takes over; a leader that was only slow cannot store
over what its successor has made.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

import anyio

from toolstash.asking import ToolResult
from toolstash.contracts import Address, WorkspaceRef
from toolstash.errors import ProducerFailedError, StoreUnavailableError, ToolstashError, UnstorableValueError
from toolstash.store.codec import pack, unpack
from toolstash.store.flights import Flights, OvertakenError, Standing, Ticket, renewal_seconds
from toolstash.tools.call_digest import Digest

logger = logging.getLogger("toolstash")

LEAST_POLL_SECONDS, MOST_POLL_SECONDS = 0.05, 0.5
LEAVING_SECONDS = 2.0
"""How long a caller that was cancelled may take to give a lease back."""
MOST_TIMES_OVERTAKEN = 3
AGAIN_SECONDS = 0.2
"""Before a lease is renewed again that could not be."""

Run = Callable[[Ticket | None], Awaitable[Any]]
"""Runs the producer and stores what it gives; the ticket goes along to the store."""


def _family(kind: type[ToolstashError]) -> list[type[ToolstashError]]:
    return [kind, *(member for child in kind.__subclasses__() for member in _family(child))]


_REFUSALS = {kind.__name__: kind for kind in _family(ToolstashError) if kind.__module__ == ToolstashError.__module__}


class _Flight:
    """What the code that a leader runs is in. It may start tasks that live on when the flight is over."""

    def __init__(self, flights: Flights, at: Address, ticket: Ticket) -> None:
        self.place = (flights, at)
        self.ticket = ticket
        self.is_in_air = True


_around: ContextVar[tuple[_Flight, ...]] = ContextVar("toolstash_flights", default=())
"""The flights that this code runs in: a producer that calls itself must not wait for itself."""


async def fly(flights: Flights, at: Address, name: str, digest: Digest, run: Run) -> Any:
    """Runs a producer for a workspace, or gives what the worker gets that runs the same call just now.

    Args:
        name: The producer's.
        digest: Of the call, from `digest_of`.

    Raises:
        ProducerFailedError: It failed elsewhere with an exception of the producer's own.
        ToolstashError: It failed here, or elsewhere in the same way.
    """
    around = [flight for flight in _around.get() if flight.is_in_air and flight.place == (flights, at)]
    if around:
        return await run(around[-1].ticket)
    followed, times_overtaken = "", 0
    while True:
        token = secrets.token_hex(8)
        standing = await _joined(flights, at, token, digest.text, followed)
        if standing.role == "landed":
            return _result_of(standing.outcome, name)
        try:
            return await _lead(flights, at, Ticket(token, standing.generation), run)
        except OvertakenError:
            followed, times_overtaken = token, times_overtaken + 1
            if times_overtaken == MOST_TIMES_OVERTAKEN or not digest.is_repeatable:
                raise


async def _joined(flights: Flights, at: Address, token: str, digest: str, followed: str) -> Standing:
    """Waits until this caller leads, or the flight that it followed has landed."""
    pause = LEAST_POLL_SECONDS
    while True:
        try:
            standing = await flights.join(at, token, digest, followed)
        except BaseException:  # the lease may be ours without our knowing
            await _land(flights, at, token, b"", LEAVING_SECONDS)
            raise
        if standing.role != "busy":
            return standing
        followed = standing.leader if standing.is_same else ""
        await asyncio.sleep(random.uniform(LEAST_POLL_SECONDS, pause))
        pause = min(pause * 1.5, MOST_POLL_SECONDS)


async def _lead(flights: Flights, at: Address, ticket: Ticket, run: Run) -> Any:
    outcome, seconds = b"", LEAVING_SECONDS
    try:
        async with _renewed(flights, at, ticket.token):
            with _in_flight(flights, at, ticket):
                result = await run(ticket)
        outcome, seconds = _outcome_of(result), float("inf")
        return result
    except OvertakenError:
        raise
    except Exception as error:
        outcome, seconds = _outcome_of_failure(error), float("inf")
        raise
    finally:
        await _land(flights, at, ticket.token, outcome, seconds)


@contextmanager
def _in_flight(flights: Flights, at: Address, ticket: Ticket) -> Generator[None]:
    flight = _Flight(flights, at, ticket)
    reset = _around.set((*_around.get(), flight))
    try:
        yield
    finally:
        flight.is_in_air = False
        _around.reset(reset)


@asynccontextmanager
async def _renewed(flights: Flights, at: Address, token: str) -> AsyncGenerator[None]:
    async def renew() -> None:
        pause = renewal_seconds()
        while True:
            await asyncio.sleep(pause)
            pause = renewal_seconds()
            try:
                await flights.keep(at, token)
            except StoreUnavailableError:
                pause = AGAIN_SECONDS
                logger.info("the lease of %s was not renewed", at.workspace_id, exc_info=True)

    task = asyncio.get_running_loop().create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _land(flights: Flights, at: Address, token: str, outcome: bytes, seconds: float) -> None:
    """Gives the lease back, also when cancelled. If the store does not answer in time, the lease ends by itself."""
    with anyio.move_on_after(seconds, shield=True):
        try:
            await flights.land(at, token, outcome)
        except StoreUnavailableError:
            logger.info("the lease of %s was not given back", at.workspace_id, exc_info=True)


def _outcome_of(result: Any) -> bytes:
    """What those who follow are told. Nothing, where it has no form that travels, or is a `ToolResult`, which answers
    one call alone: then they run themselves.
    """
    if isinstance(result, ToolResult):
        return b""
    try:
        return pack({"ref": asdict(result)} if isinstance(result, WorkspaceRef) else {"result": result})
    except UnstorableValueError:
        return b""


def _outcome_of_failure(error: Exception) -> bytes:
    kind = type(error)
    if not isinstance(error, ToolstashError):
        return pack({"failed": kind.__name__})
    told = {"error": error.message, "suggested_action": error.suggested_action}
    known = {"refused": kind.__name__ if _REFUSALS.get(kind.__name__) is kind else ToolstashError.__name__}
    try:
        return pack(known | {"told": error.details | told})
    except UnstorableValueError:
        return pack(known | {"told": told})


def _result_of(outcome: bytes, name: str) -> Any:
    told = unpack(outcome)
    if "failed" in told:
        raise ProducerFailedError(f"{name} failed ({told['failed']}).", tool=name)
    if "refused" in told:
        details = dict(told["told"])
        raise _REFUSALS[told["refused"]](details.pop("error"), **details)
    return WorkspaceRef(**told["ref"]) if "ref" in told else told["result"]
