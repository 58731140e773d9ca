"""From a model's raw arguments to checked ones: what is unambiguous passes, all else is refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from toolstash.errors import InvalidArgumentError
from toolstash.fieldpath import MISSING
from toolstash.schema.jsontext import JsonTextError, is_too_deep, read_json
from toolstash.schema.mismatch import Mismatch, quotable, shown
from toolstash.schema.parameter import Parameter
from toolstash.schema.records import unknown_name

_MAX_NAMED: Final = 3
_NAME_CHARS: Final = 80  # where a schema lets any name pass, it is a model's text
_WHOLE_ACTION: Final = 'Send the arguments as one JSON object, such as {"page": 2}, and call the tool again.'


def parse_arguments(raw: Any) -> dict[str, Any]:
    """The arguments of a call as a dict.

    None and blank text mean no arguments. A mapping is taken as it is; text must be JSON of an object, and
    may have been encoded twice.

    Raises:
        InvalidArgumentError: Anything else: `null`, a list, truncated text, NaN, nesting beyond 200 levels.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    value = _decoded(raw) if isinstance(raw, str) else raw
    if not isinstance(value, (dict, Mapping)):
        raise InvalidArgumentError(
            f"The arguments must be a JSON object, not {shown(value)}.", suggested_action=_WHOLE_ACTION
        )
    arguments = dict(cast("Mapping[Any, Any]", value))
    if not all(isinstance(name, str) for name in arguments):
        raise InvalidArgumentError("The arguments' names must be text.", suggested_action=_WHOLE_ACTION)
    if value is raw and is_too_deep(arguments):
        raise InvalidArgumentError("The arguments are nested too deeply.", suggested_action=_WHOLE_ACTION)
    return arguments


def coerce_arguments(parameters: Sequence[Parameter], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as their parameters' types.

    Optional ones that are absent or null are left out, so that the function's own defaults apply.

    Raises:
        InvalidArgumentError: An unknown or missing argument, or a value that does not fit; with `argument`
            when one is at fault, `expected_parameters` (name → type) and `required` (names).
    """
    checked: dict[str, Any] = {}
    known = missing = 0
    for parameter in parameters:
        value = raw.get(parameter.name, MISSING)
        if value is MISSING:
            missing += parameter.required
            continue
        known += 1
        if value is None and not parameter.required:
            continue
        checked[parameter.name] = value
    if known != len(raw):
        raise _unknown_refusal(parameters, raw)
    if missing:
        raise _missing_refusal(parameters, raw)
    for parameter in parameters:
        if parameter.name in checked:
            checked[parameter.name] = _converted(parameter, checked[parameter.name], parameters)
    return checked


def _converted(parameter: Parameter, value: Any, parameters: Sequence[Parameter]) -> Any:
    name = quotable(parameter.name, _NAME_CHARS)
    try:
        return parameter.convert(value)
    except Mismatch as mismatch:
        place = f"{name}{mismatch.place}"
        message, expected = f"'{place}' {mismatch.problem}.", mismatch.expected
    except RecursionError:
        place, message, expected = name, f"'{name}' is nested too deeply.", "a flatter value"
    action = f"For '{place}', send {expected}, and call the tool again."
    raise _refusal(message, action, parameters, name)


def _decoded(text: str) -> Any:
    """The value of the text, itself decoded once more if it is text; blank inside is not "no arguments"."""
    try:
        value = read_json(text)
        return read_json(value) if isinstance(value, str) else value
    except JsonTextError as error:
        message = f"The arguments are not a JSON object: {error}."
        raise InvalidArgumentError(message, suggested_action=_WHOLE_ACTION) from None


def _unknown_refusal(parameters: Sequence[Parameter], raw: Mapping[str, Any]) -> InvalidArgumentError:
    names = [parameter.name for parameter in parameters]
    unknown = [name for name in raw if name not in names]
    told = ", ".join(unknown_name(name, names) for name in unknown[:_MAX_NAMED])
    more = f" (+{len(unknown) - _MAX_NAMED} more)" if len(unknown) > _MAX_NAMED else ""
    return _refusal(
        f"Unknown argument{'s' if len(unknown) > 1 else ''}: {told}{more}.",
        f"Use only these arguments: {', '.join(names)}." if names else "Call the tool without arguments.",
        parameters,
        quotable(str(unknown[0]), 50) if len(unknown) == 1 else None,
    )


def _missing_refusal(parameters: Sequence[Parameter], raw: Mapping[str, Any]) -> InvalidArgumentError:
    missing = [parameter for parameter in parameters if parameter.required and parameter.name not in raw]
    told = ", ".join(f"'{parameter.name}' ({parameter.type_name})" for parameter in missing)
    return _refusal(
        f"Missing argument{'s' if len(missing) > 1 else ''}: {told}.",
        "Add what is missing and call the tool again.",
        parameters,
        missing[0].name if len(missing) == 1 else None,
    )


def _refusal(message: str, action: str, parameters: Sequence[Parameter], argument: str | None) -> InvalidArgumentError:
    return InvalidArgumentError(
        message,
        suggested_action=action,
        argument=argument,
        expected_parameters={parameter.name: parameter.type_name for parameter in parameters},
        required=[parameter.name for parameter in parameters if parameter.required],
    )
