"""Builds, once for each annotation, the converter that takes a model's JSON value or refuses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, cast, get_args, get_origin

from toolstash.schema.annotations import (
    DICT_KINDS,
    LIST_KINDS,
    choices_of,
    is_anything,
    is_pydantic_model,
    is_typed_dict,
    record_fields,
    union_members,
    unwrap,
)
from toolstash.schema.choices import choice_converter
from toolstash.schema.hints import json_schema_of
from toolstash.schema.jsontext import read_json_twice
from toolstash.schema.mismatch import Mismatch
from toolstash.schema.model_values import nearer
from toolstash.schema.records import Record, fits, validated_by_pydantic
from toolstash.schema.scalars import ANYTHING, SCALARS, TEXT, Converter

_SEQUENCES: Final = (list, tuple, set, frozenset, deque)


def converter_of(annotation: Any) -> Converter:
    """The converter for values of the annotation; it takes what `json_schema_of` describes, and what is near it."""
    bare, _ = unwrap(annotation)
    if is_anything(bare):
        return ANYTHING
    members = union_members(bare)
    if members is not None:
        return _union(members)
    choices = choices_of(bare)
    if choices:
        return choice_converter(choices)
    origin = get_origin(bare) or bare
    return _of_class(origin, get_args(bare)) if isinstance(origin, type) else TEXT


def _of_class(kind: type, parts: tuple[Any, ...]) -> Converter:
    if kind in SCALARS:
        return SCALARS[kind]
    if kind in LIST_KINDS:
        return list_of(converter_of(parts[0]) if parts else ANYTHING, LIST_KINDS[kind])
    if kind is tuple:
        return _tuple(parts)
    if kind in DICT_KINDS:
        return _dict(*map(converter_of, parts)) if parts else _dict(TEXT, ANYTHING)
    if is_pydantic_model(kind):
        return _pydantic(kind)
    fields = record_fields(kind)
    return _record(Record(kind, fields, converter_of)) if fields is not None else _unknown(kind)


def _union(members: tuple[Any, ...]) -> Converter:
    others = [member for member in members if member is not NoneType]
    if len(others) == 1:
        return optional(converter_of(others[0]))
    # An integer is a number too: where both are members, the narrower one is asked first.
    return any_of([converter_of(member) for member in sorted(members, key=lambda member: member is float)])


def any_of(converters: list[Converter]) -> Converter:
    """Takes what one of them takes; those before are asked first."""
    if ANYTHING in converters:
        return ANYTHING
    expected = " or ".join(dict.fromkeys(converter.expected for converter in converters))

    def convert(value: Any) -> Any:
        fitting = [converter for converter in converters if converter.takes(value)]
        return _first_that_takes(fitting or converters, value, expected)

    return Converter(
        expected,
        lambda value: any(converter.takes(value) for converter in converters),
        convert,
        any(converter.splits_text for converter in converters),
    )


def optional(converter: Converter) -> Converter:
    """Takes null as well."""
    if converter is ANYTHING:
        return ANYTHING
    return Converter(
        f"{converter.expected} or null",
        lambda value: value is None or converter.takes(value),
        lambda value: None if value is None else converter.convert(value),
        converter.splits_text,
    )


def _first_that_takes(converters: list[Converter], value: Any, expected: str) -> Any:
    inner: list[Mismatch] = []
    for converter in converters:
        try:
            return converter.convert(value)
        except Mismatch as mismatch:
            inner += [mismatch] if mismatch.is_inside else []
    # Where only one member got as far as the value's parts, its reason says more than the list of members.
    raise inner[0] if len(inner) == 1 else Mismatch(expected, value)


def list_of(item: Converter, made: Callable[[list[Any]], Any] = list) -> Converter:
    """Takes lists, and what stands for one: JSON text, a single object, text with commas where `item` says so."""
    expected = "a list" if item is ANYTHING else f"a list ({item.expected} each)"

    def convert(value: Any) -> Any:
        items = _each(_as_list(value, item, expected), item)
        try:
            return made(items)
        except TypeError:
            raise Mismatch("a list of different single values", value) from None

    def takes(value: Any) -> bool:
        return isinstance(value, _SEQUENCES) and all(map(item.takes, value))  # pyright: ignore[reportUnknownArgumentType]

    return Converter(expected, takes, convert)


def _tuple(parts: tuple[Any, ...]) -> Converter:
    if not parts or parts[-1] is ...:
        return list_of(converter_of(parts[0]) if parts else ANYTHING, tuple)
    places = [converter_of(part) for part in parts]
    expected = f"a list of {len(places)} values"

    def convert(value: Any) -> tuple[Any, ...]:
        items = _as_list(value, ANYTHING, expected)
        if len(items) != len(places):
            raise Mismatch(expected, problem=f"must be {expected}, not {len(items)}")
        pairs = zip(places, items, strict=True)
        return tuple(at_place(place, converter, item) for place, (converter, item) in enumerate(pairs))

    def takes(value: Any) -> bool:
        return isinstance(value, (list, tuple)) and len(value) == len(places)  # pyright: ignore[reportUnknownArgumentType]

    return Converter(expected, takes, convert)


def _as_list(value: Any, item: Converter, expected: str) -> list[Any]:
    """A list as it is; a list in JSON text; one object, or one value that the item type takes, in a list."""
    if isinstance(value, _SEQUENCES):
        return list(cast("list[Any]", value))
    single = value
    if isinstance(value, str):
        single = read_json_twice(value)
        text = single if isinstance(single, str) else value
        if isinstance(single, list):
            return cast("list[Any]", single)
        if item.splits_text and not isinstance(single, dict) and _is_bare(text):
            return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(single, Mapping) or _is_one_item(single, item):
        return [single]
    raise Mismatch(expected, value)


def _is_bare(text: str) -> bool:
    """Whether a text is no JSON gone wrong, so that its commas separate names."""
    stripped = text.strip(" \t\r\n,")
    return bool(stripped) and stripped[0] not in "[{" and stripped != "null"


def _is_one_item(value: Any, item: Converter) -> bool:
    return item is not ANYTHING and isinstance(value, (int, float)) and item.takes(value)


def _each(items: list[Any], item: Converter) -> list[Any]:
    if item is ANYTHING:
        return items
    return [at_place(place, item, value) for place, value in enumerate(items)]


def at_place(place: object, converter: Converter, value: Any) -> Any:
    """The value converted; a mismatch says that it is at that place."""
    try:
        return converter.convert(value)
    except Mismatch as mismatch:
        raise mismatch.inside(place) from None


def _dict(key: Converter, item: Converter) -> Converter:
    expected = "an object" if item is ANYTHING else f"an object ({item.expected} each)"
    is_free = key in (TEXT, ANYTHING) and item is ANYTHING

    def convert(value: Any) -> dict[Any, Any]:
        given = as_object(value, expected)
        if is_free:
            return dict(given)
        return {at_place(name, key, name): at_place(name, item, inner) for name, inner in given.items()}

    def takes(value: Any) -> bool:
        return isinstance(value, Mapping) and (is_free or all(map(item.takes, value.values())))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]

    return Converter(expected, takes, convert)


def as_object(value: Any, expected: str) -> Mapping[str, Any]:
    """An object as it is, or one in JSON text.

    Raises:
        Mismatch: Neither; `expected` says what would have fit.
    """
    given = read_json_twice(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise Mismatch(expected, value)
    return cast("Mapping[str, Any]", given)


def _record(record: Record) -> Converter:
    expected, is_dict = record.expected, is_typed_dict(record.kind)
    names = [field.name for field in record.fields]
    required = [field.name for field in record.fields if field.required]

    def convert(value: Any) -> Any:
        is_made = not is_dict and isinstance(value, record.kind)
        return value if is_made else record.build(as_object(value, expected))

    return Converter(expected, lambda value: fits(value, names, required), convert)


def _pydantic(model: Any) -> Converter:
    schema = json_schema_of(model)
    is_object = schema.get("type") == "object"
    names, required = schema.get("properties", {}), schema.get("required", [])
    expected = f"an object ({model.__name__})" if is_object else f"a valid {model.__name__}"
    own_schema = model.model_json_schema()

    def convert(value: Any) -> Any:
        if isinstance(value, model):
            return value
        if is_object:
            value = dict(as_object(value, expected))
        elif isinstance(value, str):
            decoded: Any = read_json_twice(value)
            value = cast(Any, decoded) if isinstance(decoded, (list, dict)) else value
        return validated_by_pydantic(model, nearer(value, own_schema, own_schema))

    return Converter(expected, lambda value: fits(value, names, required), convert)


def _unknown(kind: type) -> Converter:
    """A class without a JSON form: its schema offers text, so text passes as it is, and so do its instances."""

    def takes(value: Any) -> bool:
        return isinstance(value, (kind, str))

    def convert(value: Any) -> Any:
        if not takes(value):
            raise Mismatch("text", value)
        return value

    return Converter("text", takes, convert)
