"""The current session. It follows tasks and worker threads, and every store reads it, so no door is left open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from toolstash.errors import SessionRequiredError

_current: ContextVar[str | None] = ContextVar("toolstash_session", default=None)


def current_session() -> str | None:
    """The session id that is active here; None outside any."""
    return _current.get()


@contextmanager
def session_scope(session_id: str | None) -> Generator[None]:
    """Makes a session active for a block; None leaves any session.

    Raises:
        SessionRequiredError: The id is empty or not a string.
    """
    if session_id is not None and (not isinstance(session_id, str) or not session_id):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SessionRequiredError(f"A session id is a non-empty string, not {session_id!r:.40}.")
    token = _current.set(session_id)
    try:
        yield
    finally:
        _current.reset(token)
