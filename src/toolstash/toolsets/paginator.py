"""Pages, slices and single rows of list workspaces. No row is ever dropped: long ones are cut and can be read on."""

from __future__ import annotations

from typing import Any

from toolstash.errors import InvalidArgumentError
from toolstash.fieldpath import MISSING, read_path
from toolstash.store.cpu import on_cpu
from toolstash.store.primitives import Reading
from toolstash.store.refusals import no_such_index
from toolstash.tools.bound import PAGE_CHARS, fit_rows, json_chars, json_text, take_piece
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet, ToolSetSpec, make_toolset
from toolstash.toolsets.bounds import at_least, piece_keys
from toolstash.toolsets.mutations import Mutations

MAX_PAGE_SIZE = 100


def paginator(
    ctx: Ctx,
    name: str | None = None,
    *,
    max_page_size: int = MAX_PAGE_SIZE,
    mutations: bool = False,
    enforce_type: bool = True,
) -> ToolSet | ToolSetSpec:
    """Tools `paginate`, `count`, `get_item` and `get_slice` for lists.

    Args:
        name: What tool names start with; None: the producer's workspace type.
        max_page_size: Rows of one page or slice at most.
        mutations: Whether there are also `append_items`, `update_item`, `patch_item` and `delete_items`.
        enforce_type: Whether only workspaces of the type `name` are accepted.

    Raises:
        ValueError: `max_page_size` is below 1.
    """
    if max_page_size < 1:
        raise ValueError(f"max_page_size must be at least 1, not {max_page_size}")

    def fill(toolset: ToolSet) -> None:
        _Pages(toolset, max_page_size, mutations).register()
        if mutations:
            Mutations(toolset).register()

    return make_toolset(ctx, name, fill, enforce_type=enforce_type)


class _Pages:
    """The tools of one set."""

    def __init__(self, toolset: ToolSet, max_page_size: int, has_mutations: bool) -> None:
        self._toolset = toolset
        self._has_mutations = has_mutations
        self._max_page_size = max_page_size
        self._get_item = toolset.tool_name_of("get_item")

    def register(self) -> None:
        """Puts the tools into the set."""
        hint = (
            "Ask for the next page while has_next is true; "
            f"{self._get_item}(workspace_id='{{workspace_id}}', index=…) reads one item whole."
        )
        self._toolset.add_builtin(self.paginate, "list", output_hint=hint)
        for function in (self.count, self.get_item, self.get_slice):
            self._toolset.add_builtin(function, "list")

    async def _read(self, workspace_id: str, start: int, stop: int) -> Reading:
        return await self._toolset.checked(lambda store, at: store.read(at, start, stop), workspace_id, "list")

    async def paginate(self, workspace_id: str, page: int = 0, size: int = 10) -> dict[str, Any]:
        """Return one page of items from the workspace.

        Args:
            workspace_id: Id from the notice.
            page: Page number, from 0 on.
            size: Items on a page.
        """
        at_least("page", page, 0)
        taken = min(at_least("size", size, 1), self._max_page_size)
        meta, rows = await self._read(workspace_id, page * taken, (page + 1) * taken)
        total = meta.item_count
        pages = max(1, -(-total // taken))
        answer = {
            "items": rows,
            "page": page,
            "size": taken,
            "total": total,
            "total_pages": pages,
            "has_next": (page + 1) * taken < total,
            "has_prev": page > 0,
        }
        if page >= pages:
            answer["suggested_action"] = f"There is nothing on this page; the last page is {pages - 1}."
        return self._fitted(answer, page * taken, lowered=taken < size)

    async def count(self, workspace_id: str) -> dict[str, Any]:
        """Return how many items the workspace holds.

        Args:
            workspace_id: Id from the notice.
        """
        meta, _ = await self._read(workspace_id, 0, 0)
        version = {"version": meta.version} if self._has_mutations else {}
        return {"workspace_id": meta.workspace_id, "count": meta.item_count} | version

    async def get_item(self, workspace_id: str, index: int, field: str | None = None, offset: int = 0) -> Any:
        """Return one item by its index. A long item or field comes in pieces: read on with offset.

        Args:
            workspace_id: Id from the notice.
            index: Position of the item, from 0 on.
            field: Only this field of the item (dotted path).
            offset: Characters to skip in a long item or field.
        """
        at_least("offset", offset, 0)
        meta, rows = await self._read(workspace_id, max(0, index), max(0, index) + 1)
        if index < 0 or not rows:
            raise no_such_index(index, meta.item_count)
        if field is None and offset == 0 and json_chars(rows[0]) <= self._toolset.room(PAGE_CHARS):
            return rows[0]
        room = self._toolset.room(PAGE_CHARS)
        return await on_cpu(lambda: _piece_of(rows[0], index, field, offset, self._get_item, room))

    async def get_slice(self, workspace_id: str, start: int = 0, end: int = 20) -> dict[str, Any]:
        """Return the items from start up to, but not including, end.

        Args:
            workspace_id: Id from the notice.
            start: First index.
            end: Index after the last.
        """
        at_least("start", start, 0)
        at_least("end", end, 0)
        stop = min(max(end, start), start + self._max_page_size)
        meta, rows = await self._read(workspace_id, start, stop)
        reached = start + len(rows)
        answer = {
            "items": rows,
            "start": start,
            "end": reached,
            "total": meta.item_count,
            "has_more": reached < meta.item_count,
        }
        lowered = stop < end and reached < meta.item_count
        if lowered:
            answer["suggested_action"] = f"At most {self._max_page_size} items at once: go on with start={reached}."
        return self._fitted(answer, start, lowered=lowered)

    def _fitted(self, answer: dict[str, Any], first_index: int, *, lowered: bool) -> dict[str, Any]:
        fitted = fit_rows(answer["items"], first_index, limit=self._toolset.room(PAGE_CHARS))
        answer["items"] = fitted.items
        if lowered:
            answer["limited_by"] = "size"
            answer.setdefault(
                "suggested_action", f"At most {self._max_page_size} items on a page: go on with the next page."
            )
        if fitted.cut:
            answer["cut"] = fitted.cut
            answer["limited_by"] = "chars"
            answer["suggested_action"] = (
                f"Read a cut field on with {self._get_item}(workspace_id, index, field, offset=next_offset)."
            )
        return answer


def _piece_of(row: Any, index: int, field: str | None, offset: int, tool: str, room: int) -> dict[str, Any]:
    value = row if field is None else read_path(row, field)
    if value is MISSING:
        raise _no_such_field(row, index, field)
    text = value if isinstance(value, str) else json_text(value)
    piece = take_piece(text, offset, room)
    answer = {"index": index, "field": field, "value": piece.text} | piece_keys(piece)
    if piece.has_more:
        answer["suggested_action"] = f"Read on with {tool}(…, offset={piece.next_offset})."
    elif field is not None and offset == 0 and not isinstance(value, str):
        answer["value"] = value
    return answer


def _no_such_field(row: Any, index: int, field: str | None) -> InvalidArgumentError:
    fields = list(row)[:50] if isinstance(row, dict) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return InvalidArgumentError(
        f"Item {index} has no field '{field or '':.80}'.",
        argument="field",
        available_fields=[str(name)[:80] for name in fields],  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        suggested_action="Use one of available_fields." if fields else "The item is no object: leave field out.",
    )
