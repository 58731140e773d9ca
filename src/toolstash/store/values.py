"""Python values as JSON values. What the documented forms are stands in docs/producers.md.

No third-party type is imported: frames, arrays and models are known by the methods they have.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from decimal import Decimal
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from toolstash.errors import UnstorableValueError

MAX_DEPTH = 250
MAX_INT_BITS = 14_000  # about 4,200 digits; Python itself refuses to write out more than 4,300

_NO_VALUE_TYPES = frozenset({"NAType", "NaTType"})


def unwrap(value: Any) -> Any:
    """One level of a value of a known kind as dict, list, text, number, bool or None.

    Raises:
        TypeError: No JSON form is known.
    """
    if isinstance(value, enum.Enum):
        return value.value
    if type(value).__name__ in _NO_VALUE_TYPES:
        return None
    if isinstance(value, (dt.date, dt.time, dt.timedelta)):
        return _time_form(value)
    if isinstance(value, Decimal):
        return _decimal_form(value)
    if isinstance(value, (UUID, PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(cast(bytes, value))).decode("ascii")
    if isinstance(value, (str, int, float)):
        return _builtin_form(value)
    return _container_form(value)


def _builtin_form(value: str | float) -> Any:
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, int) else float(value)


def _container_form(value: Any) -> Any:
    if hasattr(value, "_asdict") and isinstance(value, tuple):
        return value._asdict()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue]
    if isinstance(value, Mapping):
        return dict(cast(Mapping[Any, Any], value))
    if isinstance(value, (Set, frozenset, set)):
        return sorted(cast(Iterable[Any], value), key=_set_order)
    if isinstance(value, (Sequence, ValuesView)) or type(value).__name__ == "deque":
        return list(cast(Iterable[Any], value))
    return _model_form(value)


def _model_form(value: Any) -> Any:
    if isinstance(value, type):
        raise TypeError
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "__attrs_attrs__"):
        return {attribute.name: getattr(value, attribute.name) for attribute in value.__attrs_attrs__}
    if hasattr(value, "to_dicts"):  # polars
        return value.to_dicts()
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # pandas
        return value.to_dict("records")
    for name in ("tolist", "to_list"):  # numpy, pandas, polars
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError


def _time_form(value: dt.date | dt.time | dt.timedelta) -> str | float:
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, dt.datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        utc = value.astimezone(dt.UTC).replace(tzinfo=None)
        return utc.isoformat(timespec="microseconds") + "Z"
    return value.isoformat(timespec="microseconds") if isinstance(value, dt.time) else value.isoformat()


def _decimal_form(value: Decimal) -> str | int | float | None:
    if not value.is_finite():
        return None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > 15 or abs(exponent) > 300:
        return str(value)
    return int(value) if exponent == 0 else float(value)


def _set_order(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)


def is_rows(value: Any) -> bool:
    """Whether a value is many rows that come one by one (an iterator or a generator)."""
    return isinstance(value, Iterator) or (hasattr(value, "__aiter__") and hasattr(value, "__anext__"))


def count_non_finite(value: Any) -> int:
    """How many NaN and infinite numbers are inside."""
    kind = cast(Any, type(value))
    if kind is float:
        return 0 if math.isfinite(value) else 1
    if kind is dict:
        return sum([count_non_finite(item) for item in value.values() if type(item) not in _PLAIN])
    if kind is list or kind is tuple:
        return sum([count_non_finite(item) for item in value if type(item) not in _PLAIN])
    if kind in _PLAIN:
        return 0
    if kind is Decimal:
        return 0 if value.is_finite() else 1
    try:
        return count_non_finite(unwrap(value))
    except TypeError:
        return 0


_PLAIN = frozenset({str, int, bool, type(None)})


class Normalizer:
    """Turns a value into plain JSON values step by step, for what the fast encoder refuses.

    Joins surrogate pairs, names the place of what cannot be stored, and counts non-finite numbers.
    """

    def __init__(self, row: int | None) -> None:
        self._row = row
        self.non_finite = 0

    def normalize(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """The value as dict, list, str, int, float, bool and None.

        Raises:
            UnstorableValueError: Something inside has no JSON form; names the row and the field.
        """
        if value is None or value is True or value is False:
            return value
        kind = cast(Any, type(value))
        if kind is str:
            return join_surrogates(value)
        if kind is int:
            return self._integer(value, path)
        if kind is float:
            return self._float(value)
        if len(path) > MAX_DEPTH:
            raise self._unstorable(path[:3], f"is nested deeper than {MAX_DEPTH} levels")
        if kind is dict:
            return self._object(value, path)
        if kind is list or kind is tuple or is_rows(value):
            return [self.normalize(item, (*path, str(place))) for place, item in enumerate(value)]
        return self._foreign(value, path)

    def _integer(self, value: int, path: tuple[str, ...]) -> int:
        if value.bit_length() > MAX_INT_BITS:
            raise self._unstorable(path, "is an integer of more than 4,200 digits")
        return value

    def _float(self, value: float) -> float | None:
        if math.isfinite(value):
            return value
        self.non_finite += 1
        return None

    def _object(self, value: dict[Any, Any], path: tuple[str, ...]) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in value.items():
            name = key_name(key)
            if name in plain:
                raise self._unstorable((*path, name), "would be there twice: two keys have the same JSON name")
            plain[name] = self.normalize(item, (*path, name))
        return plain

    def _foreign(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, Decimal) and not value.is_finite():
            self.non_finite += 1
            return None
        try:
            plain = unwrap(value)
        except Exception as error:
            raise self._unstorable(path, f"has no JSON form ({type(value).__name__})") from error
        if type(plain) is type(value):
            raise self._unstorable(path, f"has no JSON form ({type(value).__name__})")
        return self.normalize(plain, path)

    def _unstorable(self, path: tuple[str, ...], reason: str) -> UnstorableValueError:
        field = ".".join(path)[:80]
        places = [f"row {self._row}"] if self._row is not None else []
        places += [f"field '{field}'"] if field else []
        return UnstorableValueError(
            f"The result cannot be stored: {', '.join(places) or 'the value'} {reason}.",
            row=self._row,
            field=field or None,
        )


def key_name(key: Any) -> str:
    """The name of a dict's key in JSON: text as it is, other JSON scalars as JSON writes them, else `str(key)`."""
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return join_surrogates(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    try:
        plain = unwrap(key)
    except Exception:
        return str(key)
    return plain if isinstance(plain, str) else str(key)


def join_surrogates(text: str) -> str:
    """The text with split surrogate pairs joined; lone halves stay."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
