"""Transactions: several changes of one workspace in one step, all or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from toolstash.blocking import in_event_loop, run_blocking
from toolstash.contracts import Address
from toolstash.errors import InvalidArgumentError
from toolstash.store.arguments import MOST_AT_ONCE, checked_rows, few_enough, whole
from toolstash.store.changes import Append, Batch, Delete, Patch, SetRows, SingleChange, Update

if TYPE_CHECKING:
    from toolstash.store.primitives import StorePrimitives

_current: ContextVar[Transaction | None] = ContextVar("toolstash_transaction", default=None)


class Transaction:
    """Queues changes and applies them in one step when the block ends; an exception in it applies nothing.

    Each change finds the rows as the one before leaves them; reads inside the block see the state before. Where
    indices are named, somebody else's change in the meantime raises VersionConflictError at the end of the block.

    `async with store.transaction(id) as t` in async code, `with store.blocking.transaction(id) as t` in sync code.
    """

    def __init__(self, store: StorePrimitives, workspace_id: str) -> None:
        self._store = store
        self._workspace_id = workspace_id
        self._changes: list[SingleChange] = []
        self._at: Address | None = None
        self._version = ""
        self._size = 0
        self._owner: object = None
        self._outer: Transaction | None = None
        self._is_open = False

    def set_items(self, items: Sequence[Any]) -> None:
        """Puts other rows in the place of all."""
        rows = checked_rows(items)
        self._add(SetRows(rows), len(rows))

    def append_items(self, new_items: Sequence[Any]) -> None:
        """Adds rows at the end."""
        rows = checked_rows(new_items)
        self._add(Append(rows), len(rows))

    def update_item(self, index: int, item: Any) -> None:
        """Puts another row in the place of one."""
        self._add(Update(whole("index", index), item), 1)

    def patch_item(self, index: int, fields: Mapping[str, Any]) -> None:
        """Sets top-level fields of a row."""
        self._add(Patch(whole("index", index), dict(fields)), 1)

    def delete_items(self, indices: Sequence[int]) -> None:
        """Removes rows by index."""
        positions = [whole("indices", index) for index in few_enough("indices", indices)]
        self._add(Delete(positions), len(positions))

    async def __aenter__(self) -> Self:
        self._claim()
        await self._look()
        return self._entered()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        changes = self._close()
        if error is None:
            await self._apply(changes)

    def __enter__(self) -> Self:
        if in_event_loop():
            raise RuntimeError("an event loop is running in this thread: use `async with store.transaction(…)`")
        self._claim()
        run_blocking(self._look)
        return self._entered()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        changes = self._close()
        if error is None:
            run_blocking(self._apply, changes)

    def _add(self, change: SingleChange, size: int) -> None:
        if not self._is_open:
            raise RuntimeError("the transaction is not open: use it in a `with` block")
        if self._size + size > MOST_AT_ONCE:
            raise InvalidArgumentError(
                f"A transaction changes at most {MOST_AT_ONCE:,} rows.",
                suggested_action="Make several smaller ones, or store the data anew.",
            )
        self._size += size
        self._changes.append(change)

    def _claim(self) -> None:
        """Opens it for the running task or thread. A task that was started in a block may open another."""
        outer = _current.get()
        nests = outer is not None and outer._is_open and outer._owner is _owner()
        if self._is_open or nests:
            raise RuntimeError("a transaction is open already: end it before the next one, and use one per workspace")
        self._is_open, self._owner, self._outer = True, _owner(), outer
        self._changes, self._size = [], 0

    async def _look(self) -> None:
        try:
            self._at = await self._store.locate(self._workspace_id)
            self._version = (await self._store.read(self._at, 0, 0)).meta.version
        except BaseException:
            self._is_open = False
            raise

    def _entered(self) -> Self:
        _current.set(self)
        return self

    def _close(self) -> list[SingleChange]:
        """Ends the block; what was queued. It may end in another task than it began in, so nothing is reset."""
        self._is_open = False
        _current.set(self._outer)
        changes, self._changes = self._changes, []
        return changes

    async def _apply(self, changes: Sequence[SingleChange]) -> None:
        if not changes or self._at is None:
            return
        added = [row for change in changes if isinstance(change, Append) for row in change.rows]
        if all(isinstance(change, Append) for change in changes):
            await self._store.mutate(self._at, Append(added))
        else:
            await self._store.mutate(self._at, Batch(changes), self._version)


def _owner() -> object:
    """The running task, or the thread where there is none."""
    return asyncio.current_task() if in_event_loop() else threading.current_thread()
