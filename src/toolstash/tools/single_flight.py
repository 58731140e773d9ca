"""Single flight: workers that make the same workspace at the same time run its producer once.

One of them leads: it holds the lease of the workspace, runs, and leaves the outcome to those who came meanwhile. They
share it when session, workspace, producer and arguments are all the same; with other arguments they wait and then run
themselves. When the leader is killed or cancelled, another one takes over.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from types import CodeType
from typing import Any, cast

import anyio

import toolstash.errors
from toolstash.contracts import Address, WorkspaceRef
from toolstash.errors import ProducerFailedError, StoreUnavailableError, ToolstashError, UnstorableValueError
from toolstash.store.codec import pack, unpack
from toolstash.store.flights import Flights, Standing, renewal_seconds

logger = logging.getLogger("toolstash")

LEAST_POLL_SECONDS, MOST_POLL_SECONDS = 0.05, 0.5
LANDING_SECONDS = 2.0
"""How long a cancelled leader may take to give its lease back."""

_held: ContextVar[frozenset[Address]] = ContextVar("toolstash_flights", default=frozenset())
"""The leases that this call holds, so that a producer which calls itself does not wait for itself."""


async def fly(flights: Flights, at: Address, name: str, digest: str, run: Callable[[], Awaitable[Any]]) -> Any:
    """Runs a producer for a workspace, or gives what the worker gets that runs the same call just now.

    Args:
        name: The producer's.
        digest: Of the call, from `digest_of`.

    Raises:
        ProducerFailedError: It failed elsewhere with an exception of the producer's own.
        ToolstashError: It failed here, or elsewhere in the same way.
    """
    if at in _held.get():
        return await run()
    token = secrets.token_hex(8)
    standing = await _joined(flights, at, token, digest)
    if standing.role == "landed":
        return _result_of(standing.outcome, name)
    return await _lead(flights, at, token, run)


def digest_of(functions: Sequence[Callable[..., Any] | None], arguments: Mapping[str, Any]) -> str:
    """What tells one call from another: the code that runs, and the arguments with their types.

    Arguments without a JSON form, or that can be read only once, make a call like no other.
    """
    if not _can_be_read_again(arguments):
        return secrets.token_hex(16)
    try:
        told = [f"{name}={type(value).__qualname__}:".encode() + pack(value) for name, value in arguments.items()]
    except UnstorableValueError:
        return secrets.token_hex(16)
    code = [_code_of(function) for function in functions if function is not None]
    return hashlib.sha256(b"\0".join([*code, *told])).hexdigest()[:32]


async def _joined(flights: Flights, at: Address, token: str, digest: str) -> Standing:
    """Waits until this caller leads, or the flight that it followed has landed."""
    followed, pause = "", LEAST_POLL_SECONDS
    while True:
        standing = await flights.join(at, token, digest, followed)
        if standing.role != "busy":
            return standing
        followed = standing.leader if standing.is_same else ""
        await asyncio.sleep(random.uniform(LEAST_POLL_SECONDS, pause))
        pause = min(pause * 1.5, MOST_POLL_SECONDS)


async def _lead(flights: Flights, at: Address, token: str, run: Callable[[], Awaitable[Any]]) -> Any:
    outcome = b""
    try:
        async with _renewed(flights, at, token):
            with _holding(at):
                result = await run()
        outcome = _outcome({"result": result})
        return result
    except ToolstashError as error:
        outcome = _outcome({"refused": type(error).__name__, "told": error.to_llm_dict()})
        raise
    except Exception as error:
        outcome = _outcome({"failed": type(error).__name__})
        raise
    finally:
        await _land(flights, at, token, outcome)


@contextmanager
def _holding(at: Address) -> Generator[None]:
    reset = _held.set(_held.get() | {at})
    try:
        yield
    finally:
        _held.reset(reset)


@asynccontextmanager
async def _renewed(flights: Flights, at: Address, token: str) -> AsyncGenerator[None]:
    async def renew() -> None:
        while True:
            await asyncio.sleep(renewal_seconds())
            try:
                await flights.keep(at, token)
            except StoreUnavailableError:
                logger.info("the lease of %s was not renewed", at.workspace_id, exc_info=True)

    task = asyncio.get_running_loop().create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _land(flights: Flights, at: Address, token: str, outcome: bytes) -> None:
    """Gives the lease back, also when cancelled. If the store does not answer, the lease ends by itself."""
    with anyio.move_on_after(LANDING_SECONDS, shield=True):
        try:
            await flights.land(at, token, outcome)
        except StoreUnavailableError:
            logger.info("the lease of %s was not given back", at.workspace_id, exc_info=True)


def _outcome(told: dict[str, Any]) -> bytes:
    """What those who follow are told; nothing, where it has no form that travels: then they run themselves."""
    result = told.get("result")
    if isinstance(result, WorkspaceRef):
        told = {"ref": asdict(result)}
    try:
        return pack(told)
    except UnstorableValueError:
        return b""


def _result_of(outcome: bytes, name: str) -> Any:
    told = unpack(outcome)
    if "failed" in told:
        raise ProducerFailedError(f"{name} failed ({told['failed']}).", tool=name)
    if "refused" in told:
        raise _same_refusal(told["refused"], told["told"])
    return WorkspaceRef(**told["ref"]) if "ref" in told else told["result"]


def _same_refusal(class_name: str, told: dict[str, Any]) -> ToolstashError:
    """The refusal that another worker had."""
    kind = getattr(toolstash.errors, class_name, ToolstashError)
    return kind(told.pop("error"), **told)


def _can_be_read_again(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_can_be_read_again, cast(Mapping[Any, Any], value).values()))
    if isinstance(value, (list, tuple)):
        return all(map(_can_be_read_again, cast(Sequence[Any], value)))
    return not (hasattr(value, "__next__") or hasattr(value, "__anext__"))


def _code_of(function: Callable[..., Any]) -> bytes:
    """A function's name and code, so that two versions of a program do not share an outcome."""
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    code = getattr(function, "__code__", None)
    return name.encode() + (_words_of(code) if isinstance(code, CodeType) else b"")


def _words_of(code: CodeType) -> bytes:
    constants = [_words_of(one) if isinstance(one, CodeType) else repr(one).encode() for one in code.co_consts]
    return b"\0".join([code.co_code, *(name.encode() for name in code.co_names), *constants])
