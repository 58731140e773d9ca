"""Producers: functions whose result is stored, and answered with a notice."""

from __future__ import annotations

import inspect
import re
import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from toolstash.asking import ToolResult
from toolstash.contracts import IndexMode
from toolstash.errors import InvalidArgumentError
from toolstash.schema.function import FunctionSchema, function_name
from toolstash.schema.names import tool_name
from toolstash.store.flights import Ticket
from toolstash.store.session import current_session
from toolstash.store.sync_rows import batches_of
from toolstash.store.values import is_rows
from toolstash.tools.call_digest import digest_of
from toolstash.tools.calling import call
from toolstash.tools.single_flight import fly
from toolstash.tools.tool_context import ContextParameter, context_parameter, supplied
from toolstash.tools.toolset import ToolSet, ToolSetSpec
from toolstash.tracing import producing

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

MAX_KWARG_CHARS = 200
PIPELINE_PRODUCER = "pipeline"

_SECRET_WORDS = frozenset(
    {"token", "key", "apikey", "password", "passwd", "secret", "authorization", "auth", "credential", "credentials"}
)

Key = str | Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """A producer's function and how its result is kept."""

    ctx: Ctx
    function: Callable[..., Any]
    workspace_type: str
    toolsets: Sequence[ToolSet]
    key: Key | None
    transform: Callable[[Any], Any] | None
    meta: Mapping[str, Any]
    ttl: float | None
    notify: bool
    index: IndexMode
    signature: inspect.Signature = field(init=False)
    context_parameter: ContextParameter | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", inspect.signature(self.function))
        object.__setattr__(self, "context_parameter", context_parameter(self.function))
        check_key(self.key, self.function, self._shown(self.signature.parameters))

    @property
    def context_name(self) -> str | None:
        """The parameter that takes the `ToolContext`; None where there is none."""
        return self.context_parameter.name if self.context_parameter is not None else None

    def _shown(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """What is named by parameter, without the context: it says nothing of what the call asks for."""
        return {name: value for name, value in named.items() if name != self.context_name}

    def schema(self) -> FunctionSchema:
        """What a model is told of it."""
        note = "Returns a notice about the stored result and the tools that explore it, not the data itself."
        hidden = {self.context_name} if self.context_name is not None else set[str]()
        return FunctionSchema.of(self.function, name=tool_name(function_name(self.function)), hidden=hidden, note=note)

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, stores what it returns, and gives the notice (or the WorkspaceRef).

        With a key, callers that ask for the same at the same time, in whatever process, share one run. A `ToolResult`
        is given back as it is: it is not stored.

        Raises:
            ToolstashError: The result cannot be stored.
        """
        with self.ctx.running():
            self.ctx.check_session()
            with supplied(self.context_parameter, args, kwargs) as (positional, named):
                bound = self.signature.bind(*positional, **named)
                bound.apply_defaults()
                workspace_id = self._id_for(self._shown(bound.arguments))
                if workspace_id is None:
                    return await self._produce(bound, workspace_id)
                return await self._fly(bound, workspace_id)

    async def _fly(self, bound: inspect.BoundArguments, workspace_id: str) -> Any:
        at = self.ctx.store.place(workspace_id, self.workspace_type, current_session())
        functions = [self.function] if self.transform is None else [self.function, self.transform]
        options = (*self._options(), self._answered_call(bound))
        digest = digest_of(functions, options, self._shown(bound.arguments))
        run = partial(self._produce, bound, workspace_id)
        return await fly(self.ctx.store.flights, at, function_name(self.function), digest, run)

    def _answered_call(self, bound: inspect.BoundArguments) -> str:
        """What keeps a call with answers apart from all others: they were given to this one alone."""
        context = bound.arguments.get(self.context_name or "")
        if context is None or not (context.answers or context.answer):
            return ""
        return context.call_id or secrets.token_hex(16)

    def _options(self) -> tuple[Any, ...]:
        """What the outcome depends on besides code and arguments."""
        names = [name for toolset in self.toolsets for name in toolset.tool_names]
        storing = self.ctx.storing
        return (self.workspace_type, names, dict(self.meta), self.ttl, self.notify, self.index, storing.options)

    async def _produce(
        self, bound: inspect.BoundArguments, workspace_id: str | None, ticket: Ticket | None = None
    ) -> Any:
        with producing(function_name(self.function), self.workspace_type):
            result = await call(self.function, *bound.args, **bound.kwargs)
            if self.transform is not None and not isinstance(result, ToolResult):
                result = await call(self.transform, await _collected(result))
        if isinstance(result, ToolResult):
            return result
        arguments = public_arguments(self._shown(bound.arguments))
        return await self.ctx.storing.keep(self, workspace_id, arguments, result, ticket)

    def _id_for(self, arguments: Mapping[str, Any]) -> str | None:
        if self.key is None:
            return None
        chosen = self.key(dict(arguments)) if callable(self.key) else self.key.format_map(arguments)
        if not isinstance(chosen, str) or not chosen:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(
                f"The key of '{function_name(self.function)}' gave no id for these arguments.",
                suggested_action="Call the tool with other arguments.",
            )
        return chosen


def check_key(key: Key | None, function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> None:
    """Refuses a key template that could not be filled from the function's parameters.

    Raises:
        ValueError: A field is not a parameter's plain name, or the key is an async function.
    """
    if inspect.iscoroutinefunction(key):
        raise ValueError("key must be a template or a plain function: it is called before anything is awaited")
    if not isinstance(key, str):
        return
    names = {name for name, parameter in parameters.items() if parameter.kind not in _VARIADIC}
    for _, place, _, _ in string.Formatter().parse(key):
        if place is not None and place not in names:
            raise ValueError(
                f"key={key!r}: '{{{place}}}' is not a parameter of {function_name(function)}(); "
                f"use the plain names {sorted(names)}"
            )
    if not key:
        raise ValueError("key must not be empty")


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


async def _collected(result: Any) -> Any:
    """A stream as a list, for a transform that wants to see all of it."""
    if hasattr(result, "__aiter__"):
        return [row async for row in result]
    if is_rows(result):
        return [row async for batch in batches_of(result) for row in batch]
    return result


def public_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as they are kept in meta: scalars up to 200 characters, what looks like a secret masked."""
    return {
        name: "***" if _is_secret(name) else _cut(value)
        for name, value in arguments.items()
        if value is None or isinstance(value, (str, int, float))
    }


def _is_secret(name: str) -> bool:
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    return not _SECRET_WORDS.isdisjoint(words)


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_KWARG_CHARS:
        return value[: MAX_KWARG_CHARS - 1] + "…"
    if isinstance(value, int) and value.bit_length() > 600:
        return "…"
    return value


def materialize(
    toolsets: ToolSet | ToolSetSpec | Sequence[ToolSet | ToolSetSpec] | None, workspace_type: str
) -> tuple[ToolSet, ...]:
    """The tool sets of a producer; specs take the workspace type as their name.

    Raises:
        ValueError: A set would refuse every workspace of this type.
        TypeError: Not a tool set.
    """
    listed = [toolsets] if isinstance(toolsets, (ToolSet, ToolSetSpec)) else list(toolsets or ())
    made: dict[str, ToolSet] = {}
    for toolset in listed:
        if isinstance(toolset, ToolSetSpec):
            toolset = toolset.named(workspace_type)
        if not isinstance(toolset, ToolSet):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"toolsets takes tool sets such as paginator(ctx), not {type(toolset).__name__}")
        if toolset.enforce_type and toolset.name != workspace_type:
            raise ValueError(
                f"the tool set '{toolset.name}' accepts only workspaces of its own type, not '{workspace_type}'; "
                "leave its name out, or make it with enforce_type=False"
            )
        made[toolset.name] = toolset
    return tuple(made.values())
