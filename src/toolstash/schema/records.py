"""Converts JSON objects to dataclasses, TypedDicts and pydantic models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from toolstash.schema.annotations import RecordField, is_typed_dict
from toolstash.schema.mismatch import Mismatch, quotable, shortened
from toolstash.schema.names import near_names
from toolstash.schema.scalars import Converter

_MAX_PROBLEMS: Final = 3
_PROBLEM_CHARS: Final = 100
_logger: Final = logging.getLogger("toolstash")


@dataclass(frozen=True)
class Record:
    """One dataclass or TypedDict.

    The converters of its fields are built at the first use, for a record may hold records of its own class.
    """

    kind: type
    fields: tuple[RecordField, ...]
    converter_of: Callable[[Any], Converter]

    @cached_property
    def converters(self) -> dict[str, Converter]:
        """Field name → its converter."""
        return {field.name: self.converter_of(field.annotation) for field in self.fields}

    @property
    def expected(self) -> str:
        """What it takes, in words."""
        return shortened(f"an object with {', '.join(field.name for field in self.fields) or 'no fields'}", 200)

    def build(self, given: Mapping[str, Any]) -> Any:
        """A dict for a TypedDict (keys that it does not name stay), an instance for a dataclass."""
        if is_typed_dict(self.kind):
            return {**self._unnamed(given), **self._named(given)}
        for name in self._unnamed(given):
            raise Mismatch(self.expected, problem=f"has an unknown field {unknown_name(name, self.converters)}")
        try:
            return self.kind(**self._named(given))
        except (Mismatch, RecursionError):
            raise
        except Exception as error:
            _logger.debug("%s refused the fields of a model", self.kind.__name__, exc_info=True)
            raise Mismatch(self.expected, problem=f"was refused ({type(error).__name__})") from error

    def _unnamed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if name not in self.converters}

    def _named(self, given: Mapping[str, Any]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for field in self.fields:
            if field.name in given and (field.required or given[field.name] is not None):
                named[field.name] = self._converted(field.name, given[field.name])
            elif field.required:
                raise Mismatch(self.expected, problem=f"lacks the field '{field.name}'")
        return named

    def _converted(self, name: str, value: Any) -> Any:
        try:
            return self.converters[name].convert(value)
        except Mismatch as mismatch:
            raise mismatch.inside(name) from None


def fits(value: Any, known: Collection[str], required: Collection[str]) -> bool:
    """Whether an object has all required keys and no unknown ones."""
    return isinstance(value, Mapping) and all(key in known for key in value) and all(key in value for key in required)  # pyright: ignore[reportUnknownVariableType]


def unknown_name(name: Any, known: Collection[str]) -> str:
    """A name that is not known, shortened, with the nearest one that is."""
    near = near_names(str(name), known, 1)
    return f"'{quotable(str(name), 50)}'" + (f" (did you mean '{near[0]}'?)" if near else "")


def validated_by_pydantic(model: Any, value: Any) -> Any:
    """The model made of the value; what pydantic finds wrong is told as field and message, three at most."""
    try:
        return model.model_validate(value)
    except RecursionError:
        raise
    except Exception as error:
        _logger.debug("%s refused the value of a model", model.__name__, exc_info=True)
        raise Mismatch(f"a valid {model.__name__}", problem=f"was refused: {_pydantic_problems(error)}") from error


def _pydantic_problems(error: Any) -> str:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return type(error).__name__
    found: Any = errors(include_url=False, include_context=False, include_input=False)
    told = [
        quotable(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}".removeprefix(": "), _PROBLEM_CHARS)
        for problem in found[:_MAX_PROBLEMS]
    ]
    return "; ".join(told) + (f" (+{len(found) - len(told)} more)" if len(found) > len(told) else "")
