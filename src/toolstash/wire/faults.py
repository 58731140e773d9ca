"""Redis errors become ours, once, here. A fault is passing (worth another try) or final."""

from __future__ import annotations

import asyncio

from redis import exceptions as redis_errors

from toolstash.errors import StoreUnavailableError, ToolstashError

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
    asyncio.TimeoutError,
    OSError,
)

PASSING = (*_PASSING, redis_errors.ResponseError)
"""What a retry has to look at: `is_passing` decides."""


def is_passing(error: Exception) -> bool:
    """Whether the same command may succeed a moment later (it was refused before it ran, or it is safe to repeat)."""
    if isinstance(error, _REFUSED):
        return False
    return isinstance(error, _PASSING) or str(error).startswith(("LOADING", "MASTERDOWN", "BUSY ", "UNKILLABLE"))


def translate(error: Exception, *, tried_seconds: float) -> ToolstashError:
    """The error that callers see for a fault of the server or of the way to it."""
    if isinstance(error, ToolstashError):
        return error
    if isinstance(error, _REFUSED):
        return StoreUnavailableError(
            f"The data store refused access ({_first_words(error)}).",
            suggested_action="Tell the user that the data store's user name, password or rights need attention.",
        )
    if isinstance(error, redis_errors.OutOfMemoryError) or "OOM command not allowed" in str(error):
        return StoreUnavailableError(
            "The data store is full; nothing was stored.",
            suggested_action="Ask for less data, drop workspaces that are no longer needed, or try again later.",
        )
    if is_passing(error):
        return StoreUnavailableError(
            f"The data store did not answer within {tried_seconds:.1f} s ({type(error).__name__}).",
        )
    return StoreUnavailableError(f"The data store could not run the command ({_first_words(error)}).")


def _first_words(error: Exception) -> str:
    words = str(error).split("\n", 1)[0].split()
    return " ".join(words[:12])[:120] or type(error).__name__
