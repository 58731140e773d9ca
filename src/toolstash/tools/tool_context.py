"""What a running call knows of itself: its signal to stop, the time it has left, the answers to its questions.

CancelSignal        set from any thread, awaited in any event loop
ToolContext         what a function gets whose parameter is annotated so
ContextParameter    that parameter; `context_parameter` finds it, `supplied` fills it
current_context     the context of the call that runs here; `context_scope` makes one that
"""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolstash.asking import Answer
from toolstash.blocking import Blocking
from toolstash.schema.annotations import is_anything, union_members, unwrap
from toolstash.schema.mismatch import shortened
from toolstash.schema.resolve import function_behind, resolved_hints
from toolstash.store.session import current_session

MESSAGE_CHARS = 200
_BEYOND_COUNTING = 2**63
_NO_ANSWERS: Mapping[str, Answer] = MappingProxyType({})
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NAMED_IN_TEXT = re.compile(r"\bToolContext\b")

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Takes what a tool says of its progress: done, total (None: not known) and a message."""


class CancelSignal:
    """Tells a call to stop. It takes no lock, so a signal handler may set it."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: dict[asyncio.Future[None], None] = {}

    def is_set(self) -> bool:
        """Whether the call should stop. From any thread."""
        return self._is_set

    def set(self) -> None:
        """Tells the call to stop. From any thread, and more than once."""
        self._is_set = True
        with suppress(KeyError):  # others may take from it as well
            while self._waiting:
                waiting, _ = self._waiting.popitem()
                with suppress(RuntimeError):  # its loop is closed
                    waiting.get_loop().call_soon_threadsafe(_wake, waiting)

    async def wait(self) -> None:
        """Waits until the call should stop. In any event loop of asyncio."""
        if self._is_set:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = None
        if self._is_set:  # set meanwhile, maybe before this one was among the waiting
            self.set()
        try:
            await waiting
        finally:
            self._waiting.pop(waiting, None)

    def __repr__(self) -> str:
        return f"<CancelSignal, {'set' if self._is_set else 'not set'}>"


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class ToolContext:
    """What a tool knows of its call. A parameter annotated so is supplied by the Ctx and hidden from models.

    An `async def` function awaits `report_progress`; a `def` one gets a context whose methods block. Made by hand for
    a unit test: `ToolContext(timeout=5.0)`, and `.blocking` of it for a `def` function.

    Args:
        signal: Has `is_set()`: whether the tool should stop. In a Ctx a `CancelSignal`, which can also be awaited.
        timeout: Seconds that the call may take; None: no bound.
        answer: The answer to the question that this call asked last; None in its first run.
        answers: All answers so far by the id of their request. None: that one, if any.
        session_id: Whose call it is; None: nobody's.
        call_id: Of this call; "" where it has none.
        deadline: When the time is over, by `time.monotonic()`; in place of `timeout`, which then counts down.
        report: Awaited with what `report_progress` says; None: nobody listens.

    Raises:
        TypeError: The answer is no `Answer`.
    """

    __slots__ = ("_report", "_timeout", "answer", "answers", "call_id", "deadline", "has_ended", "session_id", "signal")

    def __init__(
        self,
        signal: Any = None,
        timeout: float | None = None,
        answer: Answer | None = None,
        *,
        answers: Mapping[str, Answer] | None = None,
        session_id: str | None = None,
        call_id: str = "",
        deadline: float | None = None,
        report: Report | None = None,
    ) -> None:
        if answer is not None and not isinstance(answer, Answer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"answer is an Answer or None, not {type(answer).__name__}: use Answer.from_dict(…)")
        self.signal = signal
        self.answer = answer
        self.answers = _all_answers(answer, answers)
        self.session_id = session_id
        self.call_id = call_id
        self.deadline = deadline
        self.has_ended = False
        self._timeout = timeout
        self._report = report

    @property
    def timeout(self) -> float | None:
        """Seconds that are left for the call, never below 0; None: no bound."""
        return self._timeout if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def blocking(self) -> Any:
        """The same with blocking methods, for sync code."""
        return Blocking(self)

    async def report_progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tells those who watch how far the tool has come; does nothing where nobody can hear it.

        Args:
            done: How much, in any unit; 0 or more.
            total: How much there is in all, in the same unit; None: not known.
            message: What it is doing; above 200 characters it is cut.

        Raises:
            TypeError, ValueError: A part is of another type, negative or not finite.
        """
        _check_amount("done", done)
        if total is not None:
            _check_amount("total", total)
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"report_progress: message is text, not {type(message).__name__}")
        if self._report is not None:
            await self._report(done, total, shortened(message, MESSAGE_CHARS))

    def nested(self) -> ToolContext:
        """The context of a tool that this call's tool calls itself: the same without the answers, which are not its."""
        return ToolContext(
            self.signal,
            self._timeout,
            session_id=self.session_id,
            call_id=self.call_id,
            deadline=self.deadline,
            report=self._report,
        )

    def __repr__(self) -> str:
        parts = {name: getattr(self, name) for name in ("signal", "timeout", "answer", "session_id", "call_id")}
        told = ", ".join(f"{name}={value!r}" for name, value in parts.items() if value not in (None, ""))
        return f"ToolContext({told})"


def _all_answers(answer: Answer | None, answers: Mapping[str, Answer] | None) -> Mapping[str, Answer]:
    if answers is not None:
        return MappingProxyType(dict(answers))
    return _NO_ANSWERS if answer is None else MappingProxyType({answer.id: answer})


def _check_amount(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"report_progress: {name} is a number, not {type(value).__name__}")
    if not 0 <= value < _BEYOND_COUNTING:  # NaN is refused too: no comparison with it holds
        raise ValueError(f"report_progress: {name} is a finite number of 0 or more, not {value!r:.40}")


_current: ContextVar[ToolContext | None] = ContextVar("toolstash_tool_context", default=None)


def current_context() -> ToolContext | None:
    """The context of the call that runs here; None outside any. Follows tasks and threads while the call runs."""
    context = _current.get()
    return None if context is None or context.has_ended else context


@contextmanager
def context_scope(context: ToolContext) -> Generator[None]:
    """Makes a context that of the running call, for a block."""
    token = _current.set(context)
    context.has_ended = False
    try:
        yield
    finally:
        context.has_ended = True  # tasks that the call has started may live on
        _current.reset(token)


def inherited_context() -> ToolContext:
    """What a function gets that is called from Python without a context: the running call's, without its answers."""
    around = current_context()
    return around.nested() if around is not None else ToolContext(CancelSignal(), session_id=current_session())


@dataclass(frozen=True, slots=True)
class ContextParameter:
    """A function's parameter that takes the context.

    Attributes:
        name: As in the function.
        is_async: Whether the function awaits what it gets.
        position: How many positional parameters come before it; None where it is passed by name only.
    """

    name: str
    is_async: bool
    position: int | None = None

    def filled(self, context: ToolContext) -> Any:
        """What the function gets: the context, with blocking methods for a sync function."""
        return context if self.is_async else context.blocking


@contextmanager
def supplied(
    parameter: ContextParameter | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Generator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of a call with the context among them, which is the current one meanwhile.

    A caller may pass one, by name or at its place; other positional arguments pass that place by, as if the parameter
    were not there. One that is not passed, or None, is inherited.
    """
    if parameter is None:
        yield args, kwargs
        return
    given, args, kwargs = _taken(parameter, args, kwargs)
    context = inherited_context() if given is None else given
    if not isinstance(context, ToolContext):  # made blocking by the caller, or a stand-in for a test
        yield _put(parameter, context, args, kwargs)
        return
    with context_scope(context):
        yield _put(parameter, parameter.filled(context), args, kwargs)


_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _taken(
    parameter: ContextParameter, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    at = parameter.position
    if parameter.name in kwargs:
        return kwargs[parameter.name], args, {name: kwargs[name] for name in kwargs if name != parameter.name}
    if at is not None and len(args) > at and isinstance(args[at], (ToolContext, Blocking)):
        return args[at], args[:at] + args[at + 1 :], kwargs
    return None, args, kwargs


def _put(parameter: ContextParameter, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments:
    at = parameter.position
    if at is not None and len(args) > at:
        return (*args[:at], value, *args[at:]), kwargs
    return args, {**kwargs, parameter.name: value}


def context_parameter(function: Callable[..., Any]) -> ContextParameter | None:
    """The parameter annotated `ToolContext`, also as text, in `Annotated`, or together with None.

    Raises:
        ValueError: There are two of them.
    """
    hints = resolved_hints(function)
    behind = function_behind(function)
    written: Mapping[str, Any] = getattr(behind, "__annotations__", {})
    parameters = inspect.signature(function).parameters
    found = [
        name
        for name, parameter in parameters.items()
        if parameter.kind not in _VARIADIC and _is_context(hints.get(name, Any), written.get(name))
    ]
    if len(found) > 1:
        raise ValueError(
            f"{getattr(behind, '__qualname__', behind)}() has more than one ToolContext: {', '.join(found)}"
        )
    if not found:
        return None
    is_async = inspect.iscoroutinefunction(behind) or inspect.isasyncgenfunction(behind)
    by_name = parameters[found[0]].kind is inspect.Parameter.KEYWORD_ONLY
    return ContextParameter(found[0], is_async, None if by_name else list(parameters).index(found[0]))


def _is_context(hint: Any, written: Any) -> bool:
    bare, _ = unwrap(hint)
    if is_anything(bare):  # text that could not be resolved: a name imported for type checkers only
        return isinstance(written, str) and _NAMED_IN_TEXT.search(written) is not None
    return any(unwrap(member)[0] is ToolContext for member in union_members(bare) or (bare,))
