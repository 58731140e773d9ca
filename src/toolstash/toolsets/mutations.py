"""Tools that change the rows of list workspaces. They are part of a paginator made with `mutations=True`."""

from __future__ import annotations

from typing import Any, cast

from toolstash.contracts import SHARED_SPACE, WorkspaceMeta
from toolstash.errors import InvalidArgumentError
from toolstash.schema.jsontext import read_json_twice
from toolstash.store.arguments import checked_rows, few_enough, whole
from toolstash.store.base import BaseStore
from toolstash.store.changes import Append, Change, Delete, Patch, Update
from toolstash.store.primitives import Reading
from toolstash.store.session import current_session
from toolstash.tools.toolset import ToolSet


class Mutations:
    """The tools of one set."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset

    def register(self) -> None:
        """Puts the tools into the set."""
        for function in (self.append_items, self.update_item, self.patch_item, self.delete_items):
            self._toolset.add_builtin(function, "list")

    async def append_items(
        self, workspace_id: str, items: list[Any], expected_version: str | None = None
    ) -> dict[str, Any]:
        """Add items at the end of the workspace.

        Args:
            workspace_id: Id from the notice.
            items: The items to add. An item that is an object may come as JSON text.
            expected_version: Change nothing if the workspace is at another version than this one.
        """
        return await self._change(workspace_id, Append(checked_rows([_read(item) for item in items])), expected_version)

    async def update_item(
        self, workspace_id: str, index: int, item: Any, expected_version: str | None = None
    ) -> dict[str, Any]:
        """Put another item in the place of one.

        Args:
            workspace_id: Id from the notice.
            index: Position of the item, from 0 on.
            item: The whole new item. An object may come as JSON text.
            expected_version: Change nothing if the workspace is at another version than this one.
        """
        return await self._change(workspace_id, Update(whole("index", index), _read(item)), expected_version)

    async def patch_item(
        self, workspace_id: str, index: int, fields: dict[str, Any], expected_version: str | None = None
    ) -> dict[str, Any]:
        """Set some fields of an item; its other fields stay.

        Args:
            workspace_id: Id from the notice.
            index: Position of the item, from 0 on.
            fields: The fields to set with their new values.
            expected_version: Change nothing if the workspace is at another version than this one.
        """
        return await self._change(workspace_id, Patch(whole("index", index), fields), expected_version)

    async def delete_items(
        self, workspace_id: str, indices: list[int], expected_version: str | None = None
    ) -> dict[str, Any]:
        """Remove items. Those behind them move up, so their indices change.

        Args:
            workspace_id: Id from the notice.
            indices: Positions of the items, from 0 on, all as they are before the removal.
            expected_version: Change nothing if the workspace is at another version than this one.
        """
        positions = [whole("indices", index) for index in few_enough("indices", indices)]
        return await self._change(workspace_id, Delete(positions), expected_version)

    async def _change(self, workspace_id: str, change: Change, expected_version: str | None) -> dict[str, Any]:
        async def look(store: BaseStore, at: Any) -> Reading:
            return Reading((await store.read(at, 0, 0)).meta, (store, at))

        meta, (store, at) = await self._toolset.checked(look, workspace_id, "list")
        if at.space == SHARED_SPACE and current_session() is not None:
            raise _shared(meta)
        after: WorkspaceMeta = await store.mutate(at, change, expected_version)
        return {"workspace_id": after.workspace_id, "count": after.item_count, "version": after.version}


def _read(item: Any) -> Any:
    """An item as it is; an object or a list that comes as JSON text is read, as in every other argument."""
    if not isinstance(item, str) or not item.lstrip().startswith(("{", "[")):
        return item
    value: Any = read_json_twice(item)
    return cast(Any, value) if isinstance(value, (dict, list)) else item


def _shared(meta: WorkspaceMeta) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Workspace '{meta.workspace_id:.150}' is shared by all sessions: it can be read here, not changed.",
        argument="workspace_id",
        suggested_action="Change a workspace of this session, such as a copy made with save_as.",
    )
