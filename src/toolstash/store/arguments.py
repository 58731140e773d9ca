"""Checks of what callers pass to a store, the same for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolstash.errors import InvalidArgumentError
from toolstash.wire import keys as layout

MOST_AT_ONCE = 10_000


def few_enough(name: str, things: Sequence[Any]) -> list[Any]:
    """The things as a list: one change is one step of the store, and holds it as long as it takes."""
    listed = [*things]
    if len(listed) > MOST_AT_ONCE:
        raise InvalidArgumentError(
            f"Invalid '{name}': at most {MOST_AT_ONCE:,} at once, not {len(listed):,}.",
            argument=name,
            suggested_action="Make several smaller changes, or store the data anew.",
        )
    return listed


def checked_rows(rows: Any) -> list[Any]:
    """Rows to be stored, as a list.

    Raises:
        InvalidArgumentError: A text or a dict, which is one row, or more than 10,000.
    """
    if isinstance(rows, (str, bytes, Mapping)):
        raise InvalidArgumentError("The rows to append come in a list.", argument="items")
    return few_enough("items", rows)


def whole(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        shown = number if isinstance(number, int) else type(number).__name__
        raise InvalidArgumentError(
            f"Invalid '{name}': {shown} is out of range, which is whole numbers from 0 on.", argument=name
        )
    return number


def checked_id(workspace_id: Any) -> str:
    if not isinstance(workspace_id, str) or not workspace_id:
        raise InvalidArgumentError(
            "Invalid 'workspace_id': it is a non-empty string.",
            argument="workspace_id",
            suggested_action="Pass the workspace_id from the notice of the tool that produced the data.",
        )
    return layout.shorten_id(workspace_id)
