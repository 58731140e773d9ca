"""Validators of JSON Schemas whose time is bounded by the size of the data, whatever a model or a person sends.

jsonschema compares each entry of a list with each other one, looks for patterns with an engine that may take for ever,
and tries every branch of a choice inside a choice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final, cast

from toolstash.schema.patterns import search_of

MANY_VALUES: Final = 300
MANY_CHARS: Final = 5_000
LEAST_STEPS: Final = 60_000
STEPS_A_VALUE: Final = 200
"""How many rules a check may apply: so many, and so many more for each value in the data."""


@lru_cache
def in_bounded_time(standard: Any) -> Any:
    """A class of validators whose time grows with the data and not with its square, or worse."""
    from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]

    own = {
        "pattern": _pattern_errors,
        "uniqueItems": _unique_errors,
        "patternProperties": _named_errors,
        "additionalProperties": _additional_errors,
    }
    rules: dict[str, Any] = {**standard.VALIDATORS, **own}
    return cast(Any, extend)(standard, {name: partial(_counted, rule) for name, rule in rules.items()})


_steps_left: ContextVar[list[int] | None] = ContextVar("toolstash_schema_steps", default=None)


class TooManyStepsError(Exception):
    """A check that takes more steps than the size of the data explains: choices inside choices."""


def _counted(rule: Any, validator: Any, expected: Any, instance: Any, schema: Any) -> Any:
    left = _steps_left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise TooManyStepsError
    return rule(validator, expected, instance, schema) or ()


@contextmanager
def bounded_steps(data: Any) -> Generator[None]:
    """Bounds the checks of a block, by the size of what is checked.

    Raises:
        TooManyStepsError: They take more.
    """
    token = _steps_left.set([LEAST_STEPS + STEPS_A_VALUE * _size_of(data)])
    try:
        yield
    finally:
        _steps_left.reset(token)


def has_many_values(data: Any) -> bool:
    """Whether a check takes so long that it is worth a thread; of text, its length tells."""
    if isinstance(data, str):
        return len(data) > MANY_CHARS
    return _size_of(data, most=MANY_VALUES) >= MANY_VALUES


def _size_of(data: Any, *, most: float = math.inf) -> int:
    """How many values there are in it; beyond `most`, it does not count on."""
    count, waiting = 0, [data]
    while waiting and count < most:
        part = waiting.pop()
        count += 1
        if isinstance(part, dict):
            waiting += cast("dict[str, Any]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
    return count


def _named_errors(validator: Any, named: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for pattern, part in named.items():
            for name, value in cast("dict[str, Any]", instance).items():
                if search_of(pattern)(name):
                    yield from validator.descend(value, part, path=name, schema_path=pattern)


def _additional_errors(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), [*schema.get("patternProperties", {})]
    for name, value in cast("dict[str, Any]", instance).items():
        if name in named or any(search_of(pattern)(name) for pattern in patterns):
            continue
        if isinstance(allowed, dict):
            yield from validator.descend(value, allowed, path=name)
        elif not allowed:
            yield ValidationError(f"Additional properties are not allowed ({name!r:.80} was unexpected)")


def _pattern_errors(validator: Any, pattern: str, text: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if isinstance(text, str) and not search_of(pattern)(text):
        yield ValidationError(f"{text!r:.80} does not match {pattern!r:.80}")


def _unique_errors(validator: Any, are_unique: bool, items: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if are_unique and isinstance(items, list):
        listed = cast("list[Any]", items)
        if len({_canonical(item) for item in listed}) < len(listed):
            yield ValidationError("has the same item twice")


def _canonical(item: Any) -> str:
    """Equal for what JSON Schema takes to be equal: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_with_whole_numbers(item), sort_keys=True, default=str)


def _with_whole_numbers(item: Any) -> Any:
    if isinstance(item, float) and item.is_integer():
        return int(item)
    if isinstance(item, list):
        return [_with_whole_numbers(one) for one in cast("list[Any]", item)]
    if isinstance(item, dict):
        return {key: _with_whole_numbers(one) for key, one in cast("dict[str, Any]", item).items()}
    return item
