"""What the built-in tools share: numbers within bounds, and answers that say how to go on."""

from __future__ import annotations

from typing import Any

from toolstash.errors import InvalidArgumentError
from toolstash.tools.bound import Piece


def at_least(name: str, value: int, least: int) -> int:
    """The number, or a refusal that names the argument.

    Raises:
        InvalidArgumentError: Below `least`.
    """
    if value < least:
        raise InvalidArgumentError(
            f"Invalid '{name}': {value!s:.20} is below {least}.",
            argument=name,
            suggested_action=f"Pass {name} as a whole number of at least {least}.",
        )
    return value


def piece_keys(piece: Piece) -> dict[str, Any]:
    """Where a piece stands in the whole, and where to read on."""
    return {
        "total_chars": piece.total_chars,
        "offset": piece.offset,
        "has_more": piece.has_more,
        "next_offset": piece.next_offset,
    }
