"""Reads type annotations: what is wrapped, what a union or an enum holds, which fields a record has.

`hints` (annotation to JSON Schema) and `converters` (JSON value to Python value) both ask here, so that
what a schema offers is what a call accepts.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, MutableSequence, MutableSet
from collections.abc import Sequence as AbstractSequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, ForwardRef, Literal, TypeVar, Union, cast, get_args, get_origin

from toolstash.schema.resolve import resolved_hints

LIST_KINDS: Final[Mapping[Any, Callable[[list[Any]], Any]]] = {
    list: list,
    AbstractSequence: list,
    MutableSequence: list,
    Collection: list,
    Iterable: list,
    deque: deque,
    set: set,
    AbstractSet: set,
    MutableSet: set,
    frozenset: frozenset,
}
"""Annotation class → what makes it of a list. Tuples are apart: their places may have types of their own."""

DICT_KINDS: Final[frozenset[Any]] = frozenset({dict, Mapping, MutableMapping})

_UNIONS: Final = (Union, types.UnionType)
_QUALIFIERS: Final = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"})
_MAX_TYPE_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a dataclass or TypedDict."""

    name: str
    annotation: Any
    required: bool


def unwrap(annotation: Any) -> tuple[Any, str]:
    """The annotation without `Annotated`, `Required`, `NewType`, aliases; and the description found on the way."""
    description = ""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            description = description or _description_in(annotation.__metadata__)
            annotation = annotation.__origin__
        elif getattr(origin, "_name", None) in _QUALIFIERS:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, TypeVar):
            annotation = annotation.__bound__ or Any
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return (types.NoneType if annotation is None else annotation), description


def is_anything(annotation: Any) -> bool:
    """Whether an unwrapped annotation says nothing: none given, `Any`, `object`, a name that was not found."""
    return annotation in (Any, object, inspect.Parameter.empty) or isinstance(annotation, (str, ForwardRef))


def union_members(annotation: Any) -> tuple[Any, ...] | None:
    """The members of a union, None included; None for what is no union."""
    return get_args(annotation) if get_origin(annotation) in _UNIONS else None


def choices_of(annotation: Any) -> list[tuple[Any, Any]] | None:
    """`(JSON value, Python value)` for each choice of a Literal or an Enum class; None for all else."""
    if get_origin(annotation) is Literal:
        return [(as_choice(value), value) for value in get_args(annotation)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [(as_choice(member), member) for member in annotation]
    return None


def as_choice(value: Any) -> Any:
    """A choice as JSON: an Enum member is its value, or its name when the value is no JSON scalar."""
    if not isinstance(value, Enum):
        return value
    plain = value.value
    return plain if type(plain) in (str, int, float, bool) else value.name


def record_fields(annotation: Any) -> tuple[RecordField, ...] | None:
    """The fields of a dataclass or TypedDict; None for all else."""
    if is_typed_dict(annotation):
        return _typed_dict_fields(annotation)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _dataclass_fields(annotation)
    return None


def is_typed_dict(annotation: Any) -> bool:
    """Whether it is a TypedDict class, from `typing` or `typing_extensions`."""
    return hasattr(annotation, "__required_keys__") and isinstance(annotation, type) and issubclass(annotation, dict)


def is_pydantic_model(annotation: Any) -> bool:
    """Whether it is a pydantic model class, found by its methods: pydantic is never imported."""
    return isinstance(annotation, type) and all(
        callable(getattr(annotation, method, None)) for method in ("model_json_schema", "model_validate")
    )


def type_name(annotation: Any) -> str:
    """A short name for people and models: `int`, `list[str]`, `str | None`, `Literal['a', 'b']`, `any`."""
    name = _type_name(annotation)
    return name if len(name) <= _MAX_TYPE_NAME_CHARS else name[: _MAX_TYPE_NAME_CHARS - 1] + "…"


def _type_name(annotation: Any) -> str:
    annotation, _ = unwrap(annotation)
    members = union_members(annotation)
    origin = get_origin(annotation)
    if is_anything(annotation):
        return "any"
    if members is not None:
        return " | ".join(_type_name(member) for member in members)
    if origin is Literal:
        return f"Literal[{', '.join(repr(value) for value, _ in choices_of(annotation) or ())}]"
    if annotation is types.NoneType:
        return "None"
    name = getattr(origin or annotation, "__name__", "") or type(annotation).__name__
    inner = ", ".join("..." if part is ... else _type_name(part) for part in get_args(annotation))
    return f"{name}[{inner}]" if inner else name


def _description_in(metadata: tuple[Any, ...]) -> str:
    for part in metadata:
        text = part if isinstance(part, str) else getattr(part, "description", None)
        if isinstance(text, str) and text:
            return text
    return ""


def _dataclass_fields(annotation: type) -> tuple[RecordField, ...]:
    hints = resolved_hints(annotation)
    return tuple(
        RecordField(field.name, hints.get(field.name, Any), _has_no_default(field))
        for field in dataclasses.fields(cast(Any, annotation))
        if field.init
    )


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _typed_dict_fields(annotation: Any) -> tuple[RecordField, ...]:
    return tuple(
        RecordField(name, hint, _is_required_key(name, hint, annotation.__required_keys__))
        for name, hint in resolved_hints(annotation).items()
    )


def _is_required_key(name: str, hint: Any, required_keys: Collection[str]) -> bool:
    # `__required_keys__` is wrong where annotations are text: the qualifier itself is looked at first.
    qualifier = getattr(get_origin(hint), "_name", None)
    return qualifier == "Required" or (qualifier != "NotRequired" and name in required_keys)
