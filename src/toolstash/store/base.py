"""What a store is, and how to write another one.

A store implements the five primitives of `primitives.py` (`replace`, `read`, `mutate`, `drop`, `list`). The rest are
conveniences over them; override one where the store can do it faster.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace as with_changes
from functools import cached_property
from typing import Any, cast

from toolstash.contracts import SHARED_SPACE, Address, Event, Hit, Stats, WorkspaceMeta
from toolstash.errors import VersionConflictError, WorkspaceNotFoundError
from toolstash.query import questions
from toolstash.query.conditions import compile_leaf
from toolstash.query.table import RowsTable, Table
from toolstash.query.terms import parse_query
from toolstash.query.work import Work
from toolstash.store.arguments import checked_rows, few_enough, whole
from toolstash.store.calls import CallBook
from toolstash.store.changes import Append, Delete, Patch, Update
from toolstash.store.codec import plain_value
from toolstash.store.cpu import on_cpu
from toolstash.store.flights import Flights, LocalFlights
from toolstash.store.local_calls import LocalCalls
from toolstash.store.payload import Payload
from toolstash.store.primitives import Reading, StorePrimitives
from toolstash.store.refusals import require_list
from toolstash.store.session import current_session
from toolstash.store.signal import Signal, Ticking
from toolstash.store.transaction import Transaction

READ_ROWS = 2_000

Check = Callable[[WorkspaceMeta], None]
"""Raises for a workspace that is not what the caller wants."""


class BaseStore(StorePrimitives):
    """A place for workspaces. Open on first use; close with `async with` or `aclose()`."""

    # Reading and writing whole workspaces

    async def read_names(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        """Like `read` of a dict, but only the names of its fields, as a list."""
        meta, data = await self.read(at, start, stop)
        return Reading(meta, [*data] if isinstance(data, dict) else data)

    async def read_fields(self, at: Address, names: Sequence[str]) -> Reading:
        """The named fields of a dict that are there; an empty dict for another shape."""
        meta, data = await self.read(at)
        held = cast(dict[str, Any], data) if isinstance(data, dict) else {}
        fields = {name: held[name] for name in names if name in held}
        return Reading(meta, fields)

    async def init_workspace(self, meta: WorkspaceMeta) -> WorkspaceMeta:
        """Makes an empty workspace of the meta's id, type and shape, in the place of what was there."""
        empty = cast(dict[str, Any], {"list": [], "dict": {}, "scalar": ""})[meta.data_shape]
        session = meta.session_id if meta.session_id is not None else current_session()
        at = self.place(meta.workspace_id, meta.workspace_type, session)
        placed = with_changes(meta, workspace_id=at.workspace_id, session_id=session)
        return (await self.replace(placed, Payload(empty))).meta

    async def set_items(self, workspace_id: str, payload: Any) -> WorkspaceMeta:
        """Replaces the data of a workspace that exists; its time to live starts anew."""
        meta = await self.get_meta(workspace_id)
        if meta is None:
            raise self.missing(workspace_id)
        return (await self.replace(meta, await Payload.of(payload))).meta

    async def get_items(self, workspace_id: str) -> Any:
        """The whole of a workspace: rows, dict, text or value."""
        return (await self.read(await self.locate(workspace_id))).data

    async def iter_items(self, workspace_id: str) -> AsyncIterator[Any]:
        """The rows of a list one by one, read in chunks.

        Raises:
            VersionConflictError: The workspace changed on the way.
        """
        at = await self.locate(workspace_id)
        start, version = 0, ""
        while True:
            meta, rows = await self.read(at, start, start + READ_ROWS)
            require_list(meta)
            if version and meta.version != version:
                raise VersionConflictError(
                    f"Workspace '{workspace_id:.150}' changed while it was read.", version=meta.version
                )
            version = meta.version
            for row in rows:
                yield row
            start += len(rows)
            if not rows or start >= meta.item_count:
                return

    async def get_meta(self, workspace_id: str) -> WorkspaceMeta | None:
        """The meta of a workspace; None if there is none for this caller."""
        try:
            return (await self.read(await self.locate(workspace_id), 0, 0)).meta
        except WorkspaceNotFoundError:
            return None

    async def count_items(self, workspace_id: str) -> int:
        """Rows, keys, or 1."""
        return (await self.read(await self.locate(workspace_id), 0, 0)).meta.item_count

    async def get_page(self, workspace_id: str, offset: int, limit: int) -> Any:
        """`limit` rows (fields, code points) from `offset` on.

        Raises:
            InvalidArgumentError: A negative offset or limit.
        """
        whole("offset", offset)
        whole("limit", limit)
        return (await self.read(await self.locate(workspace_id), offset, offset + limit)).data

    async def list_workspaces(self, workspace_type: str | None = None) -> builtins.list[str]:
        """Ids of the live workspaces that the caller sees, oldest first."""
        found = await self.list(self.visible_spaces(), workspace_type)
        return [address.workspace_id for address in found]

    async def drop_workspace(self, workspace_id: str) -> bool:
        """Removes a workspace; False if the caller sees none of that id."""
        try:
            return await self.drop(await self.locate(workspace_id))
        except WorkspaceNotFoundError:
            return False

    async def clear(self) -> None:
        """Removes the current session's workspaces; outside any session, all of them."""
        spaces = self.visible_spaces()
        for address in await self.list(None if spaces is None else spaces[:1]):
            await self.drop(address)

    async def sweep_expired(self) -> builtins.list[str]:
        """Ids that expired since the last sweep, where a store keeps count of them."""
        return []

    async def stats(self) -> Stats:
        """What the store holds of what the caller sees; bytes are 0 where a store does not know them."""
        metas: builtins.list[WorkspaceMeta] = []
        visible = self.visible_spaces()
        addresses = await self.list(visible)
        for address in addresses:
            with suppress(WorkspaceNotFoundError):
                metas.append((await self.read(address, 0, 0)).meta)
        return Stats(
            sessions=len({address.space for address in addresses} - {SHARED_SPACE}),
            workspaces=len(metas),
            pending_calls=await self.calls.count_waiting(None if visible is None else visible[:1]),
            chars_kept_out=sum(meta.chars for meta in metas),
        )

    # What happens

    @cached_property
    def flights(self) -> Flights:
        """The leases that let one worker make a workspace while others wait; here those of this process."""
        return LocalFlights()

    @cached_property
    def calls(self) -> CallBook:
        """Where calls are kept that run or wait for an answer; here those of this process."""
        return LocalCalls()

    async def find_space(self, label: str) -> str | None:
        return await super().find_space(label) or await self.calls.find_space(label)

    outage_seconds = 30.0
    """How long a store may be away before those who watch it are told."""

    def listening(self, spaces: Sequence[str]) -> AbstractAsyncContextManager[Signal]:
        """A context that gives a signal which is sent when something happened in one of the spaces; here it ticks."""
        return Ticking()

    async def last_place(self, space: str) -> str:
        """The place of the newest event of a space."""
        return (await self.events_after(space, "0-0", sys.maxsize) or [Event("0-0", "changed")])[-1].id

    async def events_after(self, space: str, place: str, limit: int) -> Sequence[Event]:
        """The next events of a space after a place, oldest first.

        Raises:
            NotImplementedError: The store keeps none.
        """
        raise NotImplementedError(f"{type(self).__name__} tells of no events")

    # Questions

    async def ask(self, at: Address, question: questions.Question[Any], check: Check = require_list) -> Reading:
        """Meta, and the answer to a question as data. Only the rows that the question wants are read.

        Args:
            check: Refuses a workspace by its meta, before any work is done.

        Raises:
            WorkspaceShapeMismatchError: Not a list.
        """
        if question.window is not None:
            meta, rows = await self.read(at, *question.window)
            check(meta)
            table: Table = RowsTable(rows)
        else:
            meta, table = await self.read_table(at, check)
        work = Work()

        def answer() -> Any:
            try:
                return question.answer(table, work)
            finally:
                self.after_question()

        try:
            return Reading(meta, await on_cpu(answer, is_long=True))
        finally:
            work.stop()

    async def build_index(self, workspace_id: str, fields: Sequence[str] | None = None) -> bool:
        """Builds a search index of a list now, for searches in these fields (None: all texts) and for other questions.

        Waits for a worker that builds it already. False where there will be none: the server has no search module, the
        workspace changed meanwhile, it has three indexes or the store 200, or the index would take too much memory.

        Raises:
            ValueError: `fields` is empty or a single text.
            WorkspaceNotFoundError, WorkspaceShapeMismatchError: There is no such list.
            StoreUnavailableError: The server does not answer, or refuses a command.
        """
        if fields is not None and (isinstance(fields, str) or not fields):
            raise ValueError(f"fields is a list of field names such as ['title', 'author.name'], not {fields!r}")
        require_list((await self.read(await self.locate(workspace_id), 0, 0)).meta)
        return False

    def build_index_later(self, at: Address, version: str, fields: Sequence[str] | None) -> None:
        """The same in the background, for stores that have indexes."""

    def after_question(self) -> None:
        """Called in the thread that answered a question, for stores that must not remember too much."""

    async def read_table(self, at: Address, check: Check = require_list) -> tuple[WorkspaceMeta, Table]:
        """Meta and all rows of a list, as columns.

        Raises:
            WorkspaceShapeMismatchError: Not a list.
        """
        check((await self.read(at, 0, 0)).meta)
        meta, rows = await self.read(at)
        check(meta)
        return meta, RowsTable(rows)

    async def search_items(
        self,
        workspace_id: str,
        query: str,
        *,
        fields: Sequence[str] | None = None,
        max_results: int = 20,
        case_sensitive: bool = False,
    ) -> builtins.list[Hit]:
        """The rows that hold any of the query's words, best first, with scores and snippets.

        Raises:
            InvalidArgumentError: The query is empty or too long.
        """
        parsed = parse_query(query, case_sensitive=case_sensitive)
        question = questions.Search(parsed, fields, whole("max_results", max_results))
        return (await self.ask(await self.locate(workspace_id), question)).data.hits

    async def filter_items(
        self, workspace_id: str, field: str, value: Any, operator: str = "eq", *, limit: int | None = None
    ) -> builtins.list[Hit]:
        """The rows for which `field operator value` holds, in their order. Operators: docs/queries.md, without `$`.

        Raises:
            InvalidArgumentError: An unknown operator, or a value that it does not take.
        """
        leaf = compile_leaf(field, f"${operator}", plain_value(value))
        question = questions.Filter(leaf, sys.maxsize if limit is None else whole("limit", limit))
        return (await self.ask(await self.locate(workspace_id), question)).data.hits

    async def sort_items(
        self, workspace_id: str, field: str, *, descending: bool = False, limit: int = 100
    ) -> builtins.list[Hit]:
        """The first rows by a field: numbers, strings, booleans, others, null, missing."""
        question = questions.Sort(field, descending, whole("limit", limit))
        return (await self.ask(await self.locate(workspace_id), question)).data.hits

    async def distinct_field_values(
        self, workspace_id: str, field: str, *, max_values: int = 50
    ) -> builtins.list[tuple[Any, int]]:
        """The values of a field with how many rows hold each, most frequent first; list elements one by one."""
        question = questions.FieldValues(field, whole("max_values", max_values))
        return (await self.ask(await self.locate(workspace_id), question)).data.values

    # Changing rows

    def transaction(self, workspace_id: str) -> Transaction:
        """Several changes in one step: `async with store.transaction(id) as t: t.append_items([…])`."""
        return Transaction(self, workspace_id)

    async def append_items(
        self, workspace_id: str, new_items: Sequence[Any], *, expected_version: str | None = None
    ) -> int:
        """Adds rows; the new count. The time to live goes on as it was.

        Raises:
            InvalidArgumentError: Not a sequence of rows (a text or a dict is one row: put it in a list), or more than
                10,000 of them.
        """
        rows = checked_rows(new_items)
        return (await self.mutate(await self.locate(workspace_id), Append(rows), expected_version)).item_count

    async def update_item(
        self, workspace_id: str, index: int, item: Any, *, expected_version: str | None = None
    ) -> WorkspaceMeta:
        """Puts another row in the place of one."""
        change = Update(whole("index", index), item)
        return await self.mutate(await self.locate(workspace_id), change, expected_version)

    async def patch_item(
        self, workspace_id: str, index: int, fields: Mapping[str, Any], *, expected_version: str | None = None
    ) -> WorkspaceMeta:
        """Sets top-level fields of a row."""
        change = Patch(whole("index", index), fields)
        return await self.mutate(await self.locate(workspace_id), change, expected_version)

    async def delete_items(
        self, workspace_id: str, indices: Sequence[int], *, expected_version: str | None = None
    ) -> int:
        """Removes rows by index; the new count."""
        at = await self.locate(workspace_id)
        change = Delete([whole("indices", index) for index in few_enough("indices", indices)])
        return (await self.mutate(at, change, expected_version)).item_count
