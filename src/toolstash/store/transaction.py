"""Transactions: several changes of one workspace in one step, all or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from toolstash.blocking import run_blocking
from toolstash.contracts import Address
from toolstash.store.arguments import checked_rows, few_enough, whole
from toolstash.store.changes import Append, Batch, Delete, Patch, SetRows, SingleChange, Update

if TYPE_CHECKING:
    from toolstash.store.primitives import StorePrimitives

_open: ContextVar[bool] = ContextVar("toolstash_transaction", default=False)


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
        self._token: Token[bool] | None = None

    def set_items(self, items: Sequence[Any]) -> None:
        """Puts other rows in the place of all, at most 10,000."""
        self._add(SetRows(checked_rows(items)))

    def append_items(self, new_items: Sequence[Any]) -> None:
        """Adds rows at the end."""
        self._add(Append(checked_rows(new_items)))

    def update_item(self, index: int, item: Any) -> None:
        """Puts another row in the place of one."""
        self._add(Update(whole("index", index), item))

    def patch_item(self, index: int, fields: Mapping[str, Any]) -> None:
        """Sets top-level fields of a row."""
        self._add(Patch(whole("index", index), dict(fields)))

    def delete_items(self, indices: Sequence[int]) -> None:
        """Removes rows by index."""
        self._add(Delete([whole("indices", index) for index in few_enough("indices", indices)]))

    async def __aenter__(self) -> Self:
        await self._begin()
        self._token = _open.set(True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        changes = self._close()
        if error is None:
            await self._apply(changes)

    def __enter__(self) -> Self:
        run_blocking(self._begin)
        self._token = _open.set(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        changes = self._close()
        if error is None:
            run_blocking(self._apply, changes)

    def _add(self, change: SingleChange) -> None:
        if self._token is None:
            raise RuntimeError("the transaction is not open: use it in a `with` block")
        self._changes.append(change)

    async def _begin(self) -> None:
        if _open.get():
            raise RuntimeError("a transaction is open already: end it before the next one, and use one per workspace")
        self._at = await self._store.locate(self._workspace_id)
        self._version = (await self._store.read(self._at, 0, 0)).meta.version

    def _close(self) -> list[SingleChange]:
        """Ends the block; what was queued."""
        if self._token is not None:
            _open.reset(self._token)
            self._token = None
        changes, self._changes = self._changes, []
        return changes

    async def _apply(self, changes: Sequence[SingleChange]) -> None:
        if changes and self._at is not None:
            only_adds = all(isinstance(change, Append) for change in changes)
            await self._store.mutate(self._at, Batch(changes), None if only_adds else self._version)
