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
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from importlib import metadata
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple, cast

CHARS_OF_A_VALUE = 1_000
MOST_VALUES = 10_000
"""Arguments of more values (a long text counts as many) make a call like no other: to look at them takes time."""

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


_TEXTS = (str, bytes, bool, type(None), Enum, pathlib.PurePath)
_CONTAINERS = (list, tuple, dict, set, frozenset, str, bytes)


class _NotTellableError(Exception):
    """A value of which nothing is known: it may hold a state that cannot be seen, or be read only once."""


_UNTELLABLE = (_NotTellableError, RecursionError, ValueError, AttributeError)
"""`repr` refuses a number of very many digits, and a field may not be set."""


class Digest(NamedTuple):
    """What tells a call from others, and whether the call could be made again with the same arguments."""

    text: str
    is_repeatable: bool


def digest_of(functions: list[Callable[..., Any]], options: object, arguments: Mapping[str, Any]) -> Digest:
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
    except _UNTELLABLE:
        return Digest(secrets.token_hex(16), is_repeatable=False)
    code = [part for function in functions for part in _code_of(function)]
    text = "\0".join([_version(), *code, *told]).encode("utf-8", "surrogatepass")
    return Digest(hashlib.sha256(text).hexdigest()[:32], is_repeatable=True)


class _Teller:
    """Describes values, each type and content differently, up to a number of them."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def told(self, value: Any) -> str:
        """The description of a value.

        Raises:
            _NotTellableError: It has none, or too much was asked already.
        """
        kind = _kind_of(value)
        self._left -= 1 + (len(value) // CHARS_OF_A_VALUE if kind in (str, bytes) else 0)
        if self._left < 0:
            raise _NotTellableError
        if kind in _TOLD_BY_REPR or isinstance(value, pathlib.PurePath):
            return f"{_name(kind)}({value!r})"
        if isinstance(value, Enum):
            return f"{_name(kind)}({value.value!r})"
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
    kind = _kind_of(value)
    return kind.__bases__ == (tuple,) and hasattr(kind, "_fields")


def _fields_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a value whose class says that these are all there is to it."""
    kind = _kind_of(value)
    if hasattr(kind, "__pydantic_fields__"):
        hidden = (value.__pydantic_extra__, value.__pydantic_private__)
        attributes = cast(dict[str, Any], value.__dict__)
        return iter([*attributes.items(), ("", hidden)])
    is_record = hasattr(kind, "__dataclass_fields__")
    fields: Any = dataclasses.fields(value) if is_record else getattr(kind, "__attrs_attrs__", ())
    names: list[str] = [field.name for field in fields]
    slots = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()) if name != "__weakref__")
    if not names or issubclass(kind, _CONTAINERS) or not {*getattr(value, "__dict__", ()), *slots} <= {*names}:
        raise _NotTellableError
    return iter([(name, getattr(value, name)) for name in names])


def _code_of(function: Any) -> Iterator[str]:
    """The code that a call runs, with what it was made with."""
    if isinstance(function, functools.partial):
        partial = cast("functools.partial[Any]", function)
        yield from _code_of(partial.func)
        yield from map(_fixed, (*partial.args, *partial.keywords, *partial.keywords.values()))
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
    keyword_defaults: dict[str, Any] = getattr(function, "__kwdefaults__", None) or {}
    yield from map(_fixed, (*(getattr(function, "__defaults__", None) or ()), *keyword_defaults.values()))
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
    """What a function was made with: the code of a function, a value that can be told, of an object its texts.

    What changes on the way (lists, dicts, the numbers of an object) or cannot be told (clients, connections) counts by
    its type: else a producer that counts its calls would never share one.
    """
    if isinstance(value, (FunctionType, MethodType, functools.partial)):
        return "\0".join(_code_of(value))
    if not _is_changeable(value):
        with suppress(*_UNTELLABLE):
            return _Teller().told(value)
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    texts = {name: one for name, one in attributes.items() if isinstance(one, _TEXTS)}
    return _name(_kind_of(value)) + _fixed(texts)


def _is_changeable(value: Any) -> bool:
    return isinstance(value, (list, dict, set))


def _fixed(value: Any) -> str:
    """What a default or an argument of a partial is: nobody changes it on the way."""
    try:
        return _Teller().told(value)
    except _UNTELLABLE:
        return _name(_kind_of(value)) if _is_changeable(value) else _surroundings(value)


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
