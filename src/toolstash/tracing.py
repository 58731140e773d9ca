"""Spans of OpenTelemetry, where opentelemetry-api is installed; next to nothing where it is not.

The application's tracer provider gets them; nothing is configured here. Names are those of the semantic conventions
for GenAI and for databases where these have one, `toolstash.*` otherwise. A span never holds arguments, data, the
text of an exception or a raw session id. Imports nothing of toolstash.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final, Literal, Self

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as ForeignSpan
    from opentelemetry.trace import Tracer

logger = logging.getLogger("toolstash")

Value = str | int | bool

CANCELLED: Final = "cancelled"
"""The description of the status, and the `error.type`, of a call that was cancelled or left behind."""

_LABEL_DIGITS = 12
_MOST_CHARS = 200

_tracer: Tracer | None = None
_is_unsought = True


class Span:
    """A span that nobody sees, used as a context; `_SeenSpan` is one that somebody may see."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        pass

    def note(self, name: str, value: object) -> None:
        """Adds an attribute, text up to 200 characters; what is neither text nor a whole number is left out."""

    def fail(self, error_type: str | BaseException) -> None:
        """Says that what the span is of went wrong: a short name of the kind of error, or an exception for its type."""

    def retry(self, error: Exception) -> None:
        """Says that the same is tried again, because of `error`."""


_UNSEEN: Final = Span()


class _SeenSpan(Span):
    """A span of OpenTelemetry that is the current one inside its block, and ends with it."""

    __slots__ = ("_retries", "_span", "_token")

    def __init__(self, span: ForeignSpan) -> None:
        self._span = span
        self._retries = 0
        self._token: Token[Context] | None = None

    def __enter__(self) -> Self:
        from opentelemetry import context, trace

        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from opentelemetry.context import detach
        from opentelemetry.trace import get_current_span

        if error is not None:
            self.fail(error)
        is_left_behind = kind is GeneratorExit and get_current_span() is not self._span  # closed in another context
        if self._token is not None and not is_left_behind:
            detach(self._token)
        self._span.end()

    def note(self, name: str, value: object) -> None:
        if isinstance(value, (str, int)):
            self._span.set_attribute(name, _text(value) if isinstance(value, str) else value)

    def fail(self, error_type: str | BaseException) -> None:
        if self._span.is_recording():
            from opentelemetry.trace import Status, StatusCode

            name = error_type if isinstance(error_type, str) else _type_name(error_type)
            self._span.set_attribute("error.type", name)
            self._span.set_status(Status(StatusCode.ERROR, name))

    def retry(self, error: Exception) -> None:
        self._retries += 1
        self._span.add_event("toolstash.retry", {"error.type": _type_name(error)})
        self._span.set_attribute("toolstash.retries", self._retries)


class _SeenTrip(_SeenSpan):
    """The error of a trip is named after what it was made of: redis-py's says more than ours."""

    __slots__ = ()

    def fail(self, error_type: str | BaseException) -> None:
        cause = error_type.__cause__ if isinstance(error_type, Exception) else None
        super().fail(cause or error_type)


def tool_call(tool: str | None, *, session_id: str | None = None, call_id: str | None = None) -> Span:
    """A span for one call of a tool.

    Args:
        tool: The tool's name as registered, not as the model wrote it; None if there is no such tool.
        session_id: Whose call it is. Only a digest is kept: the label with which ids made in the session end.
        call_id: What the model's provider calls this call.
    """
    tracer = _find_tracer() if _is_unsought else _tracer
    if tracer is None:
        return _UNSEEN
    attributes: dict[str, Value] = {"gen_ai.operation.name": "execute_tool"}
    if tool is not None:
        attributes["gen_ai.tool.name"] = tool
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = _text(call_id)
    span = tracer.start_span("execute_tool" if tool is None else f"execute_tool {tool}", attributes=attributes)
    if session_id is not None and span.is_recording():
        span.set_attribute("toolstash.session", _label(session_id))
    return _SeenSpan(span) if span.is_recording() else _UNSEEN


def producing(name: str, workspace_type: str) -> Span:
    """A span for the user's own function behind a producer: `with producing("load", "papers"): …`."""
    tracer = _find_tracer() if _is_unsought else _tracer
    if tracer is None:
        return _UNSEEN
    attributes = {"toolstash.producer": name, "toolstash.workspace_type": workspace_type}
    span = tracer.start_span(f"toolstash.produce {name}", attributes=attributes)
    return _SeenSpan(span) if span.is_recording() else _UNSEEN


def store_trip(
    server: Mapping[str, Value], operation: str, *, is_script: bool = False, batch_size: int | None = None
) -> Span:
    """A span for one trip to the store, its repetitions included.

    Args:
        server: What `server_attributes` gave.
        operation: The name of the command or of the script.
        is_script: Whether it is the name of a Lua script.
        batch_size: How many commands go together, where it is a batch.
    """
    tracer = _find_tracer() if _is_unsought else _tracer
    if tracer is None:
        return _UNSEEN
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Value] = {**server, "db.operation.name": operation}
    if is_script:
        attributes["db.stored_procedure.name"] = operation
    if batch_size is not None:
        attributes["db.operation.batch.size"] = batch_size
    span = tracer.start_span(operation, kind=SpanKind.CLIENT, attributes=attributes)
    return _SeenTrip(span) if span.is_recording() else _UNSEEN


def store_batch(
    server: Mapping[str, Value],
    kind: Literal["PIPELINE", "MULTI"],
    operations: Callable[[], list[str]],
    *,
    are_scripts: bool = False,
) -> Span:
    """`store_trip` for commands or scripts that go together, whose names `operations` gives; one alone is no batch."""
    if not _is_unsought and _tracer is None:
        return _UNSEEN
    names = operations()
    if len(names) == 1:
        return store_trip(server, names[0], is_script=are_scripts)
    operation = f"{kind} {names[0]}" if len(set(names)) == 1 else kind
    return store_trip(server, operation, batch_size=len(names))


def server_attributes(arguments: Mapping[str, Any]) -> dict[str, Value]:
    """What every trip to a server says of it, by the arguments of its connections: its place, where they name one."""
    attributes: dict[str, Value] = {"db.system.name": "redis"}
    host, port = arguments.get("host"), arguments.get("port")
    address = host or arguments.get("path")
    if isinstance(address, str) and address:
        attributes["server.address"] = address
        if host and isinstance(port, int):
            attributes["server.port"] = port
    return attributes


def _find_tracer() -> Tracer | None:
    """Looks once for OpenTelemetry. A provider that is set later gets the spans from then on."""
    global _tracer, _is_unsought
    try:
        from opentelemetry import trace

        _tracer = trace.get_tracer("toolstash")
    except ImportError:
        _tracer = None
    except Exception as error:  # a broken set-up of tracing must not break the calls
        logger.warning("OpenTelemetry could not be set up (%s): no spans are made", type(error).__name__)
        _tracer = None
    _is_unsought = False
    return _tracer


def _type_name(error: BaseException) -> str:
    if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return CANCELLED
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:_MOST_CHARS]


def _text(value: str) -> str:
    """Cut, and without lone surrogates, which no exporter could encode."""
    return value[:_MOST_CHARS].encode("utf-8", "replace").decode()


def _label(session_id: str) -> str:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:_LABEL_DIGITS]
