"""Keys and values of dict workspaces. A large value comes in pieces."""

from __future__ import annotations

from typing import Any

from toolstash.contracts import Address
from toolstash.errors import InvalidArgumentError
from toolstash.fieldpath import MISSING, read_segments, split_path
from toolstash.store.base import BaseStore
from toolstash.store.primitives import Reading
from toolstash.tools.bound import ELLIPSIS, PAGE_CHARS, VALUE_CHARS, json_chars, json_text, take_piece
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet, ToolSetSpec, make_toolset
from toolstash.toolsets.bounds import at_least, piece_keys

MAX_KEYS = 200
KEYS_IN_ERROR = 50


def kv_reader(
    ctx: Ctx,
    name: str | None = None,
    *,
    max_value_chars: int = VALUE_CHARS,
    max_keys: int = MAX_KEYS,
    enforce_type: bool = True,
) -> ToolSet | ToolSetSpec:
    """Tools `get_keys` and `get_value` for dicts.

    Args:
        name: What tool names start with; None: the producer's workspace type.
        max_value_chars: Characters of a value, or of a piece of one, at most.
        max_keys: Keys listed at once at most.
        enforce_type: Whether only workspaces of the type `name` are accepted.

    Raises:
        ValueError: A bound is below 1.
    """
    if max_value_chars < 1 or max_keys < 1:
        raise ValueError("max_value_chars and max_keys must be at least 1")
    return make_toolset(
        ctx, name, lambda toolset: _Fields(toolset, max_value_chars, max_keys).register(), enforce_type=enforce_type
    )


class _Fields:
    """The tools of one set."""

    def __init__(self, toolset: ToolSet, max_value_chars: int, max_keys: int) -> None:
        self._toolset = toolset
        self._max_value_chars = max_value_chars
        self._max_keys = max_keys
        self._get_value = toolset.tool_name_of("get_value")

    def register(self) -> None:
        """Puts the tools into the set."""
        hint = f"Read a value with {self._get_value}(workspace_id='{{workspace_id}}', key=…)."
        self._toolset.add_builtin(self.get_keys, "dict", output_hint=hint)
        self._toolset.add_builtin(self.get_value, "dict")

    async def get_keys(self, workspace_id: str, offset: int = 0) -> dict[str, Any]:
        """List the top-level keys of the workspace.

        Args:
            workspace_id: Id from the notice.
            offset: Keys to skip.
        """
        at_least("offset", offset, 0)
        stop = offset + self._max_keys
        meta, names = await self._toolset.checked(
            lambda store, at: store.read_names(at, offset, stop), workspace_id, "dict"
        )
        keys = _fitting(names, self._toolset.room(PAGE_CHARS))
        reached = offset + len(keys)
        answer: dict[str, Any] = {"keys": keys, "count": meta.item_count, "has_more": reached < meta.item_count}
        if answer["has_more"]:
            answer["suggested_action"] = f"List the next keys with offset={reached}."
        return answer

    async def get_value(self, workspace_id: str, key: str, offset: int = 0) -> Any:
        """Return the value at a key. A long value comes in pieces: read on with offset.

        Args:
            workspace_id: Id from the notice.
            key: A key, or a dotted path such as 'server.hosts.0'.
            offset: Characters to skip in a long value.
        """
        at_least("offset", offset, 0)
        segments = split_path(key)
        _, fields = await self._toolset.checked(
            lambda store, at: store.read_fields(at, list(dict.fromkeys([key, segments[0]]))), workspace_id, "dict"
        )
        value = fields[key] if key in fields else read_segments(fields, segments)
        if value is MISSING:
            raise await _no_such_key(self._toolset, workspace_id, key)
        if offset == 0 and json_chars(value) <= self._toolset.room(self._max_value_chars):
            return value
        text = value if isinstance(value, str) else json_text(value)
        piece = take_piece(text, offset, self._toolset.room(self._max_value_chars))
        answer = {"key": key, "type": _type_name(value), "preview": piece.text} | piece_keys(piece)
        if piece.has_more:
            answer["suggested_action"] = f"Read on with {self._get_value}(…, offset={piece.next_offset})."
        return answer


def _fitting(names: list[str], room: int) -> list[str]:
    """As many keys as fit; at least one, cut where it alone is too long."""
    fitting: list[str] = []
    used = 2
    for name in names:
        used += json_chars(name) + 1
        if fitting and used > room:
            break
        fitting.append(name if json_chars(name) <= room // 2 else take_piece(name, 0, room // 2).text + ELLIPSIS)
    return fitting


async def _no_such_key(toolset: ToolSet, workspace_id: str, key: str) -> InvalidArgumentError:
    async def names(store: BaseStore, at: Address) -> Reading:
        return await store.read_names(at, 0, KEYS_IN_ERROR)

    _, keys = await toolset.checked(names, workspace_id, "dict")
    return InvalidArgumentError(
        f"Key '{key:.80}' not found.",
        argument="key",
        available_keys=[name[:80] for name in keys],
        suggested_action="Use one of available_keys; a dot in a key is written '\\.'.",
    )


def _type_name(value: Any) -> str:
    names: dict[Any, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
    return "null" if value is None else names.get(type(value), "number")
