"""Changes of a workspace's rows: what callers ask for, and what it comes to for the rows that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from toolstash.store import refusals


@dataclass(frozen=True, slots=True)
class Append:
    """Adds rows at the end."""

    rows: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Update:
    """Puts a row in the place of the one at `index`."""

    index: int
    row: Any


@dataclass(frozen=True, slots=True)
class Patch:
    """Sets top-level fields of the row at `index`, which must be a dict."""

    index: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes the rows at `indices`, all counted before the removal."""

    indices: Sequence[int]


@dataclass(frozen=True, slots=True)
class SetRows:
    """Puts other rows in the place of all."""

    rows: Sequence[Any]


SingleChange = Append | Update | Patch | Delete | SetRows


@dataclass(frozen=True, slots=True)
class Batch:
    """Several changes in one step, all or none. Each finds the rows as the one before left them."""

    changes: Sequence[SingleChange]


Change = SingleChange | Batch


@dataclass(slots=True)
class Edits:
    """What a change comes to, by the positions that rows had before it.

    Attributes:
        cleared: Whether all rows go; then nothing is replaced, patched or removed.
        replaced: New rows by position.
        patched: Fields to set, by position.
        removed: Positions of the rows that go.
        added: Rows that come at the end.
    """

    cleared: bool = False
    replaced: dict[int, Any] = field(default_factory=dict[int, Any])
    patched: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    removed: set[int] = field(default_factory=set[int])
    added: list[Any] = field(default_factory=list[Any])

    @property
    def grows(self) -> bool:
        """Whether there may be more data afterwards."""
        return bool(self.replaced or self.patched or self.added)

    def out_of_range(self, count: int) -> int | None:
        """A position that is not among so many rows; None if all are."""
        positions = (*self.replaced, *self.patched, *self.removed)
        return next((position for position in positions if not 0 <= position < count), None)


def edits_of_one(change: SingleChange) -> Edits:
    """What a single change comes to; that its positions are there is not checked."""
    if isinstance(change, Append):
        return Edits(added=[*change.rows])
    if isinstance(change, SetRows):
        return Edits(cleared=True, added=[*change.rows])
    if isinstance(change, Update):
        return Edits(replaced={change.index: change.row})
    if isinstance(change, Patch):
        return Edits(patched={change.index: dict(change.fields)})
    return Edits(removed=set(change.indices))


def edits_of(change: Change, count: int) -> Edits:
    """What the change comes to for so many rows.

    Raises:
        InvalidArgumentError: An index is out of range, or a row that the change itself adds cannot be patched.
    """
    draft = _Draft(count)
    for part in change.changes if isinstance(change, Batch) else [change]:
        draft.apply(part)
    return draft.edits


class _Added:
    """A row that the batch itself has added."""

    def __init__(self, row: Any) -> None:
        self.row = row


class _Draft:
    """The rows as they will be, each named by its old position or as added."""

    def __init__(self, count: int) -> None:
        self._slots: list[int | _Added] = list(range(count))
        self._edits = Edits()

    def apply(self, change: SingleChange) -> None:
        if isinstance(change, Append):
            self._slots += [_Added(row) for row in change.rows]
        elif isinstance(change, SetRows):
            self._slots = [_Added(row) for row in change.rows]
            self._edits = Edits(cleared=True)
        elif isinstance(change, Delete):
            self._delete(change.indices)
        elif isinstance(change, Update):
            self._update(self._slot(change.index), change.row)
        else:
            self._patch(change.index, dict(change.fields))

    @property
    def edits(self) -> Edits:
        self._edits.added = [slot.row for slot in self._slots if isinstance(slot, _Added)]
        return self._edits

    def _slot(self, index: int) -> int | _Added:
        if not 0 <= index < len(self._slots):
            raise refusals.no_such_index(index, len(self._slots))
        return self._slots[index]

    def _update(self, slot: int | _Added, row: Any) -> None:
        if isinstance(slot, _Added):
            slot.row = row
        else:
            self._edits.patched.pop(slot, None)
            self._edits.replaced[slot] = row

    def _patch(self, index: int, fields: dict[str, Any]) -> None:
        slot = self._slot(index)
        if isinstance(slot, int) and slot not in self._edits.replaced:
            self._edits.patched[slot] = self._edits.patched.get(slot, {}) | fields
            return
        row = slot.row if isinstance(slot, _Added) else self._edits.replaced[slot]
        self._update(slot, merged(row, fields, index))

    def _delete(self, indices: Sequence[int]) -> None:
        gone = {index: self._slot(index) for index in indices}
        for slot in gone.values():
            if isinstance(slot, int):
                self._edits.replaced.pop(slot, None)
                self._edits.patched.pop(slot, None)
                self._edits.removed.add(slot)
        for index in sorted(gone, reverse=True):
            del self._slots[index]


def merged(row: Any, fields: Mapping[str, Any], index: int) -> dict[str, Any]:
    """A row with some fields set.

    Raises:
        InvalidArgumentError: The row is no object.
    """
    if not isinstance(row, dict):
        raise refusals.not_an_object(index)
    return cast(dict[str, Any], row) | dict(fields)


def changed(rows: Sequence[Any], edits: Edits) -> list[Any]:
    """The rows after the edits, patches among them; for stores that hold rows as values."""
    kept = [] if edits.cleared else [*rows]
    for position, row in edits.replaced.items():
        kept[position] = row
    for position, fields in edits.patched.items():
        kept[position] = merged(kept[position], fields, position)
    return [row for position, row in enumerate(kept) if position not in edits.removed] + edits.added
