"""What a tool asks a person, and what the person answers. Imports nothing from above.

Request         the question: an open `kind`, a prompt, perhaps a link, data and an end
Answer          what came back: yes with data, or no with a reason
PendingCall     a call that waits for an answer; ResumedCall: one that was answered and has gone on
ToolResult      what a tool may return in place of plain data; one with a request in it suspends the call
pending         makes such a result; auth_required: one that sends a person to a page
pending_of      the request in a result, if there is one
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Self, cast

MOST_REASON_CHARS = 1_000
_MOST_CHARS = {"id": 200, "kind": 100, "url": 8_000}


class _OnTheWire:
    """A dataclass that travels as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The form on the wire: absent parts are left out."""
        named: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(cast(Any, self))}
        return {name: _as_dict(part) for name, part in named.items() if part is not None}

    @classmethod
    def from_dict(cls, wire: Mapping[str, Any]) -> Self:
        """What a form on the wire says; unknown keys are passed over: a newer sender may say more.

        Raises:
            TypeError, ValueError: A key is missing or has a wrong value.
        """
        if not isinstance(wire, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{cls.__name__}.from_dict takes a mapping, not {type(wire).__name__}")
        known = fields(cast(Any, cls))
        missing = [one.name for one in known if one.default is MISSING and one.name not in wire]
        if missing:
            raise ValueError(f"{cls.__name__}: {', '.join(missing)} is missing")
        return cls(**{one.name: wire[one.name] for one in known if one.name in wire})


def _as_dict(part: Any) -> Any:
    return dict(cast(Mapping[str, Any], part)) if isinstance(part, Mapping) else part


@dataclass(frozen=True, slots=True)
class Request(_OnTheWire):
    """A question to a person (or to whatever program stands for one).

    Attributes:
        id: Unique, 200 characters at most; the answer repeats it.
        kind: Any word of 100 characters at most; by convention "authorization", "approval", "input" or "question".
        prompt: What the person reads.
        url: Where to go, for an authorization. Secrets travel by it alone, never in an answer.
        data: Further JSON, such as `schema`: the JSON Schema of the answer's data.
        expiresAt: An RFC 3339 time with a zone, after which no answer counts.
    """

    id: str
    kind: str
    prompt: str
    url: str | None = None
    data: Mapping[str, Any] | None = None
    expiresAt: str | None = None  # noqa: N815 - the name on the wire

    def __post_init__(self) -> None:
        for name in ("id", "kind", "prompt"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"a request's {name} is a non-empty text, not {getattr(self, name)!r:.80}")
        for name, most in _MOST_CHARS.items():
            if len(getattr(self, name) or "") > most:
                raise ValueError(f"a request's {name} has {most:,} characters at most")
        if self.url is not None and not isinstance(self.url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a request's url is text or None, not {type(self.url).__name__}")
        if self.data is not None and not isinstance(self.data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a request's data is a mapping or None, not {type(self.data).__name__}")
        if self.expiresAt is not None:
            _moment(self.expiresAt)

    @property
    def expires_at(self) -> float | None:
        """`expiresAt` in Unix seconds; None if the request names no end."""
        return None if self.expiresAt is None else _moment(self.expiresAt).timestamp()


@dataclass(frozen=True, slots=True)
class Answer(_OnTheWire):
    """What a person answered.

    Attributes:
        id: The request's.
        ok: True to go on, False to decline.
        data: What was asked for, as JSON.
        reason: Why not: "declined", "cancelled", "expired", or a person's own words (1,000 characters at most).
    """

    id: str
    ok: bool
    data: Any = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"an answer's id is that of the request, not {self.id!r:.80}")
        if not isinstance(self.ok, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"an answer's ok is True or False, not {self.ok!r:.80}")
        if self.reason is not None and not isinstance(self.reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"an answer's reason is text or None, not {type(self.reason).__name__}")
        if self.reason is not None and len(self.reason) > MOST_REASON_CHARS:
            raise ValueError(f"an answer's reason has {MOST_REASON_CHARS} characters at most, not {len(self.reason)}")


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for an answer.

    Attributes:
        call_id: What `answer`, `call_result` and `cancel` take.
        tool: The tool's name.
        arguments: As the model sent them, whole.
        session_id: Whose call it is; None: nobody's.
        request: What is asked.
        created_at: When the tool asked first, in Unix seconds by the store's clock.
        expires_at: Until when an answer counts, likewise.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    session_id: str | None
    request: Request
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class ResumedCall:
    """A call that a worker went on with: what the dispatch would have returned, and whether that is an error.

    `result` may be a suspended call again: the tool has asked another question.
    """

    call_id: str
    tool: str
    session_id: str | None
    result: Any
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool may return in place of plain data: the model reads `output`.

    Attributes:
        output: What the model reads.
        is_error: Whether the tool failed; the model then gets `output` as an error.
        metadata: For the program: `{"pending": Request}` suspends the call.
        parts: Further content, for programs that know what to do with it; a dispatch passes it over.
    """

    output: Any
    is_error: bool = False
    metadata: Mapping[str, Any] | None = None
    parts: list[dict[str, Any]] | None = None


def pending(
    *,
    kind: str,
    prompt: str,
    id: str | None = None,  # noqa: A002 - the field's name
    url: str | None = None,
    data: Mapping[str, Any] | None = None,
    expiresAt: str | datetime | timedelta | None = None,  # noqa: N803 - the field's name
) -> ToolResult:
    """What a tool returns to wait for an answer. It is called again with the answer in its `ToolContext`.

    Args:
        kind: Any word; by convention "authorization", "approval", "input" or "question".
        prompt: What the person reads.
        id: None or "": a new one, unique in all processes.
        url: Where the person goes.
        data: Further JSON; `schema` holds the JSON Schema of the answer's data.
        expiresAt: When it is too late: RFC 3339 text, a datetime with a zone, or how long from now. None: the call
            waits for seven days.

    Raises:
        ValueError, TypeError: A part has no such form.
    """
    request = Request(id or f"pnd_{secrets.token_hex(16)}", kind, prompt, url, data, _as_text(expiresAt))
    return ToolResult("\n".join(filter(None, (prompt, url))), is_error=True, metadata={"pending": request})


def auth_required(url: str, prompt: str = "Authorization required to continue") -> ToolResult:
    """What a tool returns when a person has to authorize it on a page first."""
    return pending(kind="authorization", prompt=prompt, url=url)


def pending_of(result: Any) -> Request | None:
    """The request in a tool's result; None where there is none.

    Raises:
        TypeError, ValueError: What `metadata["pending"]` holds is no request.
    """
    asked = (result.metadata or {}).get("pending") if isinstance(result, ToolResult) else None
    if not asked:
        return None
    if isinstance(asked, Request):
        return asked
    return Request.from_dict(cast(Mapping[str, Any], asked))


def _as_text(moment: str | datetime | timedelta | None) -> str | None:
    if moment is None or isinstance(moment, str):
        return moment
    at = datetime.now(UTC) + moment if isinstance(moment, timedelta) else moment
    if at.tzinfo is None:
        raise ValueError("expiresAt needs a zone: datetime.now(timezone.utc) + …")
    return at.astimezone(UTC).isoformat()


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError(f"expiresAt is a time such as '2030-01-31T12:00:00Z', not {text!r:.80}") from None
    if at.tzinfo is None:
        raise ValueError(f"expiresAt needs a zone, as in '2030-01-31T12:00:00Z', not {text!r:.80}")
    return at
