"""Redis errors become ours, once, here. A fault is passing (worth another try) or final."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.sentinel import MasterNotFoundError

from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.wire.causes import cleaned, first_words, is_set_up_wrong, origin, reason, words_of

_REFUSED = (
    redis_errors.AuthenticationError,
    redis_errors.AuthorizationError,
    redis_errors.AuthenticationWrongNumberOfArgsError,
    redis_errors.NoPermissionError,
)
_PASSING = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.ReadOnlyError,
    redis_errors.ClusterDownError,
    redis_errors.TryAgainError,
    redis_errors.ExecAbortError,
    redis_errors.SlotNotCoveredError,
    asyncio.TimeoutError,
    OSError,
)

_PASSING_WORDS = ("LOADING", "MASTERDOWN", "BUSY ", "UNKILLABLE", "NOREPLICAS", "READONLY")
_NO_RIGHT = ("ACL failure in script", "The user executing the script can't")
_NO_CLUSTER = ("cluster support disabled", "Cluster mode is not enabled")
_SLOT_UNDER_WAY = ("attempted to access a non local key", "undeclared keys were accessed")
_TLS_ACTION = "Tell the user that the TLS settings of the data store need attention."
_MAYBE_A_REPLICA = (
    "Try again in a moment; if it persists, tell the user that the data store's URL may be that of a replica."
)
_READ_ONLY = "it takes no writes at the moment"
_MOVING = "its data is moving to another node"
_STARTING = "it is still starting"
_BUSY = "it is busy with a long script"
_IN_PART = "a part of it is down"
_WHY = {
    "ReadOnlyError": _READ_ONLY,
    "READONLY": _READ_ONLY,
    "NOREPLICAS": _READ_ONLY,
    "TryAgainError": _MOVING,
    "ExecAbortError": _MOVING,
    "ClusterDownError": _IN_PART,
    "SlotNotCoveredError": _IN_PART,
    "BusyLoadingError": _STARTING,
    "MasterDownError": _STARTING,
    "BUSY": _BUSY,
    "UNKILLABLE": _BUSY,
}
"""Passing faults by the name of their class or their first word; others are told by the name of their class."""

PASSING = (*_PASSING, redis_errors.ResponseError, redis_errors.RedisClusterException)
"""What a retry has to look at: `is_passing` decides."""


def is_passing(error: Exception) -> bool:
    """Whether the same command may succeed a moment later (it was refused before it ran, or it is safe to repeat)."""
    error = origin(error)
    if isinstance(error, _REFUSED) or is_set_up_wrong(error):
        return False
    if isinstance(error, _PASSING):
        return True
    return words_of(error).startswith(_PASSING_WORDS) or _met_a_moving_slot(error)


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """What stands in the place of a reply when the server refused the command.

    `message` is the server's text, without arguments and places. `passes` says that the server is only full, starting
    or handing over.
    """

    message: str
    passes: bool = False


def is_full(error: Exception) -> bool:
    """Whether the server has no memory left for the command."""
    return isinstance(error, redis_errors.OutOfMemoryError) or "OOM command not allowed" in str(error)


def as_value(reply: Any) -> Any:
    """A reply as it is, an error as a `CommandRefused`."""
    if not isinstance(reply, redis_errors.RedisError):
        return reply
    return CommandRefused(cleaned(reply), is_passing(reply) or is_full(reply))


def translate(error: Exception, *, tried_seconds: float) -> ToolstashError:
    """The error that callers see for a fault of the server or of the way to it. It holds no host, key or argument."""
    if isinstance(error, ToolstashError):
        return error
    given, error = error, origin(error)
    if is_set_up_wrong(error):
        return StoreUnavailableError(f"The data store cannot be used: {reason(error)}.", suggested_action=_TLS_ACTION)
    if isinstance(error, _REFUSED) or any(words in str(error) for words in _NO_RIGHT):
        return StoreUnavailableError(
            f"The data store refused access ({first_words(error)}).",
            suggested_action="Tell the user that the data store's user name, password or rights need attention.",
        )
    if is_full(error):
        return StoreUnavailableError(
            "The data store is full; nothing was stored.",
            suggested_action="Ask for less data, drop workspaces that are no longer needed, or try again later.",
        )
    if is_passing(error):
        why = _no_primary(given, error) if isinstance(given, MasterNotFoundError) else _why(error)
        return StoreUnavailableError(
            f"The data store did not answer within {tried_seconds:.1f} s ({why}).",
            suggested_action=_MAYBE_A_REPLICA if _is_read_only(error) else "",
        )
    return _of_wrong_url(error) or StoreUnavailableError(
        f"The data store could not run the command ({first_words(error)})."
    )


def _of_wrong_url(error: Exception) -> StoreUnavailableError | None:
    """For servers of another kind than the URL says."""
    if isinstance(error, redis_errors.AskError):  # MovedError is one
        told = "is a node of a Redis Cluster; its URL has to begin with redis+cluster:// (or rediss+cluster://)"
    elif any(words in str(error) for words in _NO_CLUSTER):
        told = "is not a Redis Cluster; its URL has to begin with redis:// (or rediss://)"
    elif re.search("unknown command .?SENTINEL", str(error), re.IGNORECASE):
        told = (
            "is not a sentinel; its URL has to begin with redis:// (or rediss://), or name the sentinels and their port"
        )
    elif isinstance(error, redis_errors.InvalidResponse):
        told = f"cannot be used: {reason(error)}"
    else:
        return None
    return StoreUnavailableError(
        f"The data store {told}.", suggested_action="Tell the user that the data store's URL needs attention."
    )


def _no_primary(given: Exception, cause: Exception) -> str:
    why = reason(cause)
    return f"{given}: {why}" if why else str(given)


def _is_read_only(error: Exception) -> bool:
    return isinstance(error, redis_errors.ReadOnlyError) or words_of(error).startswith("READONLY")


def _why(error: Exception) -> str:
    if _met_a_moving_slot(error):
        return _MOVING
    kind = type(error).__name__
    return reason(error) or _WHY.get(kind) or _WHY.get(words_of(error).partition(" ")[0], kind)


def _met_a_moving_slot(error: Exception) -> bool:
    return any(words in str(error) for words in _SLOT_UNDER_WAY)
