"""One parameter of a tool, with its schema and its converter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolstash.schema.annotations import type_name
from toolstash.schema.converters import converter_of


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter that a model fills in.

    Attributes:
        name: As in the function.
        annotation: Resolved; `Any` where there is none or it could not be resolved.
        schema: The complete JSON Schema, with description and default.
        required: Whether the function has no default for it.
        default: The function's default; None when it is required.
        description: The text in the schema; may be empty.
        type_name: The annotation for people, such as `int` or `list[str]`.
        convert: JSON value → argument; raises `Mismatch`. Built once, here.
    """

    name: str
    annotation: Any
    schema: Mapping[str, Any]
    required: bool = True
    default: Any = None
    description: str = ""
    type_name: str = field(init=False, repr=False, compare=False)
    convert: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type_name", type_name(self.annotation))
        object.__setattr__(self, "convert", converter_of(self.annotation).convert)
