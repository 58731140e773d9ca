"""What tells one call of a producer from another, so that only equal calls share a run.

In doubt two calls are different: then the second waits for the first and runs itself.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import hashlib
import pathlib
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from importlib import metadata
from types import CodeType
from typing import Any, cast

MOST_VALUES = 10_000
"""Arguments of more values make a call like no other: looking at them would hold the event loop."""

_TOLD_BY_REPR = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
    pathlib.PurePath,
)


class _NotTellableError(Exception):
    """A value of which nothing is known: it may hold a state that cannot be seen, or be read only once."""


def digest_of(functions: list[Callable[..., Any]], options: object, arguments: Mapping[str, Any]) -> str:
    """32 hex digits that are equal for equal calls of the same code, in every process.

    Args:
        functions: What runs, in order: its code, defaults, closures and the objects that it is bound to count.
        options: Whatever else the result depends on, in plain values.
        arguments: By parameter. Plain values, dataclasses, pydantic models and the like are told apart by type and
            content; anything else makes a call like no other.
    """
    teller = _Teller()
    try:
        told = [teller.told(options), teller.told(dict(arguments))]
    except (_NotTellableError, RecursionError):
        return secrets.token_hex(16)
    code = [part for function in functions for part in _code_of(function)]
    return hashlib.sha256("\0".join([_version(), *code, *told]).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Teller:
    """Describes values, each type and content differently, up to a number of them."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def told(self, value: Any) -> str:
        """The description of a value.

        Raises:
            _NotTellableError: It has none, or too much was asked already.
        """
        self._left -= 1
        if self._left < 0:
            raise _NotTellableError
        kind = _kind_of(value)
        if kind in _TOLD_BY_REPR or isinstance(value, pathlib.PurePath):
            return f"{_name(kind)}({value!r})"
        if isinstance(value, Enum):
            return f"{_name(kind)}.{value.name}"
        if kind in (list, tuple) or _is_named_tuple(value):
            return f"{_name(kind)}[{','.join(map(self.told, value))}]"
        if kind in (set, frozenset):
            return f"{_name(kind)}[{','.join(sorted(map(self.told, value)))}]"
        if kind is dict:
            return self._pairs(kind, value.items())
        return self._pairs(kind, _fields_of(value))

    def _pairs(self, kind: Any, pairs: Any) -> str:
        return f"{_name(kind)}{{{','.join(f'{self.told(key)}:{self.told(value)}' for key, value in pairs)}}}"


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(cast(Any, value), "_fields")


def _fields_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a value whose class says that these are all there is to it."""
    kind = _kind_of(value)
    if hasattr(kind, "__pydantic_fields__"):
        return iter(cast(dict[str, Any], vars(value)).items())
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else getattr(kind, "__attrs_attrs__", ())
    names = [field.name for field in fields]
    if not names:
        raise _NotTellableError
    return ((name, getattr(value, name)) for name in names)


def _code_of(function: Any) -> Iterator[str]:
    """The code that a call runs, with what it was made with."""
    if isinstance(function, functools.partial):
        partial = cast("functools.partial[Any]", function)
        yield from _code_of(partial.func)
        yield from map(_surroundings, (*partial.args, *partial.keywords, *partial.keywords.values()))
        return
    yield f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', _name(type(function)))}"
    bound_to = getattr(function, "__self__", None)
    if bound_to is not None:
        yield _surroundings(bound_to)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if not isinstance(code, CodeType):
        code = getattr(_kind_of(function).__call__, "__code__", None)
        yield _surroundings(function)
    if isinstance(code, CodeType):
        yield from _words_of(code)
    for cell in getattr(function, "__closure__", None) or ():
        yield _surroundings(_content(cell))
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield from _code_of(wrapped)


def _words_of(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _words_of(constant)
        else:
            yield _surroundings(constant)


def _surroundings(value: Any) -> str:
    """What a function was made with, as far as that settles what it does.

    Plain constants count; of an object those that are its attributes. What changes on the way (lists, dicts) or cannot
    be told (clients, connections) counts by its type.
    """
    if _is_constant(value):
        return _Teller().told(value)
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    constants = {name: one for name, one in attributes.items() if _is_constant(one)}
    return f"{_name(type(value))}{_Teller().told(constants)}"


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_constant, value))
    return type(value) in _TOLD_BY_REPR or isinstance(value, (Enum, pathlib.PurePath))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _kind_of(value: Any) -> Any:
    return cast(Any, type(value))


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@lru_cache
def _version() -> str:
    return metadata.version("toolstash")
