"""A tool's schema that its author wrote as JSON Schema, and the check of any value against one.

jsonschema is loaded by the first use: a program without such schemas never loads it. References are looked up inside
the schema alone; nothing is ever fetched.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, cast

from toolstash.errors import InvalidArgumentError
from toolstash.schema.bounded_validator import TooManyStepsError, bounded_steps, in_bounded_time
from toolstash.schema.coerce import coerce_arguments, parse_arguments
from toolstash.schema.function import FunctionSchema
from toolstash.schema.json_converters import JsonConverters, named_elsewhere
from toolstash.schema.json_problems import place_of, problem_of
from toolstash.schema.mismatch import shortened
from toolstash.schema.parameter import Parameter
from toolstash.schema.patterns import search_of

_MOST_PROBLEMS: Final = 50
"""The worst is chosen of so many: a list of a million wrong entries has as many."""
_MESSAGE_CHARS: Final = 200
_TYPE_CHARS: Final = 120
_DATA_KEYWORDS: Final = frozenset({"const", "enum", "default", "examples"})


def plain_schema(schema: Any) -> Any:
    """A schema as JSON has it: a copy that nobody else changes.

    Raises:
        ValueError: It has no JSON form.
    """
    try:
        return json.loads(json.dumps(schema, allow_nan=False, default=_as_dict))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a JSON Schema is plain JSON: {error}") from None


def _as_dict(value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return dict(cast("Mapping[Any, Any]", value))


def check_schema(schema: Any) -> None:
    """Refuses what is no JSON Schema.

    Raises:
        ValueError: It is none, or it refers to something outside itself.
    """
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, (Mapping, bool)):
        raise ValueError(f"a JSON Schema is a mapping, not {type(schema).__name__}")
    plain = plain_schema(schema)
    try:
        _validator_class(plain).check_schema(plain)
    except SchemaError as error:
        place = place_of(error.absolute_path)
        where = f" at '{place}'" if place else ""
        raise ValueError(f"no JSON Schema{where}: {shortened(error.message, _MESSAGE_CHARS)}") from None
    _check_references(plain)
    for pattern in (*_patterns_in(plain), *_named_patterns_in(plain)):
        search_of(pattern)


def validated(data: Any, schema: Mapping[str, Any] | bool) -> str | None:
    """Why a value does not fit a schema: "'filter.0' must be a number, not \\"x\\"". None: it fits.

    Raises:
        ValueError: The schema refers to something outside itself.
    """
    problem = _problem(_validator(schema), data)
    if problem is None:
        return None
    place, wrong, _ = problem
    return f"'{place}' {wrong}" if place else f"the value {wrong}"


@dataclass(frozen=True, slots=True)
class JsonParameter(Parameter):
    """A property of a JSON Schema as a parameter. `root` is the whole schema, which it may refer to."""

    root: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    takes_null: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        converter = JsonConverters(self.root).converter_of(self.schema)
        object.__setattr__(self, "type_name", _type_name(self.schema))
        object.__setattr__(self, "convert", converter.convert)
        object.__setattr__(self, "takes_null", converter.takes(None))


@dataclass(frozen=True, slots=True)
class JsonFunctionSchema(FunctionSchema):
    """A tool whose author wrote the schema of its arguments.

    Attributes:
        input_schema: As the author wrote it; models are shown it unchanged.
    """

    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _validator: Any = field(default=None, repr=False, compare=False)
    _defaults: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    _elsewhere: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @classmethod
    def of_json(cls, name: str, description: str, input_schema: Mapping[str, Any]) -> JsonFunctionSchema:
        """Reads a JSON Schema of an object.

        Raises:
            ValueError: It is no JSON Schema, not one of an object, or refers to something outside itself.
        """
        check_schema(input_schema)
        schema: dict[str, Any] = plain_schema(input_schema)
        if schema.get("type") != "object":
            raise ValueError('the schema of a tool\'s arguments is one of an object: {"type": "object", …}')
        required: list[str] = schema.get("required", [])
        properties: Mapping[str, Any] = schema.get("properties", {})
        allowed = {key: part for key, part in properties.items() if part is not False}
        parameters = [_parameter(key, part, schema, key in required) for key, part in allowed.items()]
        summary = " ".join(description.strip().split("\n\n")[0].split())
        defaults = _defaults_of(parameters)
        elsewhere = named_elsewhere(schema)
        return cls(name, description, summary, tuple(parameters), schema, _validator(schema), defaults, elsewhere)

    def checked(self, raw: Any) -> dict[str, Any]:
        """A model's arguments as the schema wants them, in the order in which they came.

        An optional one that is null where the schema has no null counts as left out. Of what is left out, the default
        that the schema names is filled in where that fits.

        Raises:
            InvalidArgumentError: They do not fit; an unknown name is refused unless `additionalProperties` or
                `patternProperties` say that there are others.
        """
        given = parse_arguments(raw)
        further = self._further(given)
        others = {parameter.name: given[parameter.name] for parameter in further}
        own = {key: value for key, value in given.items() if key not in others}
        converted = self._coerced(self.parameters, own) | self._coerced(further, others)
        arguments = {key: converted[key] for key in given if key in converted}
        self._check(arguments)
        return arguments | {key: copy.deepcopy(value) for key, value in self._defaults.items() if key not in arguments}

    def _coerced(self, parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
        """Near what the schema wants; null stays where the schema has one."""
        try:
            converted = coerce_arguments(parameters, given)
        except InvalidArgumentError as error:
            error.details |= self._expected()
            raise
        nulls = [p.name for p in parameters if isinstance(p, JsonParameter) and p.takes_null and p.name in given]
        return {name: None for name in nulls if given[name] is None} | converted

    def _expected(self) -> dict[str, Any]:
        return {
            "expected_parameters": {parameter.name: parameter.type_name for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
        }

    def to_openai(
        self, *, enums: Mapping[str, Sequence[Any]] | None = None, leave_out: Collection[str] = ()
    ) -> dict[str, Any]:
        """The schema in OpenAI's function form, a new dict every time: always what the author wrote.

        Only `properties` is added where it is missing: OpenAI refuses an object without.
        """
        schema = copy.deepcopy(dict(self.input_schema))
        schema.setdefault("properties", {})
        return self._in_openai_form(schema)

    def _further(self, given: Mapping[str, Any]) -> list[Parameter]:
        """Parameters for the names that are none of the schema's properties but may come."""
        named: Mapping[str, Any] = self.input_schema.get("properties", {})
        found = {
            key: self._elsewhere[key] if key in self._elsewhere else _further_schema(self.input_schema, key)
            for key in given
            if key not in named
        }
        return [_parameter(key, part, self.input_schema, False) for key, part in found.items() if part is not False]

    def _check(self, arguments: Mapping[str, Any]) -> None:
        problem = _problem(self._validator, arguments)
        if problem is None:
            return
        place, wrong, expected = problem
        subject, target = (f"'{place}'", f"For '{place}', send") if place else ("The call", "Send")
        raise InvalidArgumentError(
            f"{subject} {wrong}.",
            suggested_action=f"{target} {expected}, and call the tool again.",
            argument=place.split(".")[0] or None,
            **self._expected(),
        )


def _parameter(name: str, part: Any, root: Mapping[str, Any], required: bool) -> JsonParameter:
    schema: Mapping[str, Any] = cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}
    return JsonParameter(name, Any, schema, required, None, str(schema.get("description", "")), root=root)


def _further_schema(schema: Mapping[str, Any], name: str) -> Any:
    """The schema of a property that is not named; False where there may be none."""
    patterns: Mapping[str, Any] = schema.get("patternProperties", {})
    found = next((part for pattern, part in patterns.items() if search_of(pattern)(name)), None)
    return schema.get("additionalProperties", False) if found is None else found


def _defaults_of(parameters: Sequence[JsonParameter]) -> dict[str, Any]:
    """The defaults of optional properties that fit their own schema; one that does not would fail in the tool."""
    return {
        parameter.name: parameter.schema["default"]
        for parameter in parameters
        if not parameter.required and "default" in parameter.schema and _fits_itself(parameter)
    }


def _fits_itself(parameter: JsonParameter) -> bool:
    around = {key: value for key, value in parameter.root.items() if key in ("$schema", "$defs", "definitions")}
    try:
        return validated(parameter.schema["default"], {**around, **parameter.schema}) is None
    except ValueError:  # it refers to another place of the whole schema
        return False


def _type_name(schema: Mapping[str, Any]) -> str:
    """The type for people and models: `integer`, `string | null`, `any`."""
    choices: Any = [schema["const"]] if "const" in schema else schema.get("enum", ())
    if choices:
        return shortened(" | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices), _TYPE_CHARS)
    named: Any = schema.get("type", "any")
    return named if isinstance(named, str) else " | ".join(named)


def _validator(schema: Any) -> Any:
    from referencing import Registry

    plain, nothing = plain_schema(schema), cast(Any, Registry)()
    return _validator_class(plain)(plain, registry=nothing)


def _validator_class(schema: Any) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return in_bounded_time(validator_for(schema, default=Draft202012Validator))


def _problem(validator: Any, data: Any) -> tuple[str, str, str] | None:
    from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]
    from referencing.exceptions import Unresolvable

    try:
        with bounded_steps(data):
            worst = cast(Any, best_match)(islice(validator.iter_errors(data), _MOST_PROBLEMS), key=_weight)
    except Unresolvable as error:
        raise ValueError(f"the schema refers to {error.ref!r:.80}, which is not in it; nothing is fetched") from None
    except RecursionError:
        return "", "must not be nested so deeply", "a flatter value"
    except TooManyStepsError:
        return "", "must not be so nested that checking it takes too long", "a simpler value"
    return None if worst is None else problem_of(worst)


def _weight(error: Any) -> tuple[int, bool]:
    """The problem that says most: the outermost, and one of the value itself before one of a choice of schemas."""
    return -len(error.path), error.validator not in ("anyOf", "oneOf")


def _check_references(schema: Any) -> None:
    """Refuses a reference that leads out of the schema: it would only be noticed in a call."""
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource: Any = Resource.from_contents(schema, default_specification=DRAFT202012)
    base = resource.id() or ""
    resolver: Any = cast(Any, Registry)().with_resource(base, resource).crawl().resolver(base)
    for reference in _references_in(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(
                f"the schema refers to {reference!r:.80}, which is not in it; nothing is fetched: put it under $defs"
            ) from None


def _patterns_in(schema: Any) -> list[str]:
    return [part["pattern"] for part in _objects_in(schema) if isinstance(part.get("pattern"), str)]


def _named_patterns_in(schema: Any) -> list[str]:
    named = [part.get("patternProperties") for part in _objects_in(schema)]
    return [name for one in named if isinstance(one, dict) for name in cast("dict[str, Any]", one)]


def _references_in(schema: Any) -> list[str]:
    keys = ("$ref", "$dynamicRef")
    return [part[key] for part in _objects_in(schema) for key in keys if isinstance(part.get(key), str)]


def _objects_in(part: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema that is not plain data."""
    if isinstance(part, list):
        for item in cast("list[Any]", part):
            yield from _objects_in(item)
    if isinstance(part, dict):
        whole = cast("dict[str, Any]", part)
        yield whole
        for key, value in whole.items():
            if key not in _DATA_KEYWORDS:
                yield from _objects_in(value)
