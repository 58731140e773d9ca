"""How results become workspaces, and notices of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from dataclasses import replace as with_changes
from typing import Any

from toolstash.contracts import Limits, WorkspaceMeta, WorkspaceRef
from toolstash.schema.function import function_name
from toolstash.store.base import BaseStore
from toolstash.store.cpu import on_cpu
from toolstash.store.flights import Ticket
from toolstash.store.payload import Payload
from toolstash.store.primitives import ReplaceRule
from toolstash.store.session import current_session
from toolstash.tools.describe import encoded_chars, schema_for, tools_for
from toolstash.tools.notice import build_ref
from toolstash.tools.producer import PIPELINE_PRODUCER, Producer
from toolstash.tools.toolset import ToolSet

logger = logging.getLogger("toolstash")


@dataclass(frozen=True, slots=True)
class Storing:
    """Stores results within the bounds of one Ctx."""

    store: BaseStore
    limits: Limits
    inline_below_chars: int

    async def put(
        self,
        draft: WorkspaceMeta,
        payload: Payload,
        toolsets: Sequence[ToolSet],
        rule: ReplaceRule | None,
        *,
        status: str = "workspace_ready",
    ) -> WorkspaceRef:
        """Stores a payload for the current session and describes it. An empty id in the draft asks for a random one."""
        session = current_session()
        at = self.store.place(draft.workspace_id or None, draft.workspace_type, session)
        placed = with_changes(draft, workspace_id=at.workspace_id, session_id=session, limits=self.limits)
        meta, dropped = await self.store.replace(placed, payload, rule)
        if meta.index == "eager" and meta.data_shape == "list" and meta.item_count:
            self.store.build_index_later(at, meta.version, _searched_fields(toolsets))
        tools = tools_for(toolsets, payload)
        if toolsets and not tools:
            names = ", ".join(toolset.name for toolset in toolsets)
            logger.warning("no tool of %s reads the %s data of workspace %s", names, payload.shape, at.workspace_id)
        made_room = f"To make room, the oldest workspaces were dropped: {', '.join(dropped)[:300]}." if dropped else ""
        return await on_cpu(
            lambda: build_ref(
                meta,
                sample=payload.sample,
                item_schema=schema_for(payload),
                tools=tools,
                non_finite=meta.non_finite,
                status=status,
                note=made_room,
            )
        )

    @property
    def options(self) -> tuple[Any, ...]:
        """What the outcome of a producer depends on."""
        return (*astuple(self.limits), self.inline_below_chars)

    async def keep(
        self,
        producer: Producer,
        workspace_id: str | None,
        arguments: dict[str, Any],
        result: Any,
        ticket: Ticket | None,
    ) -> Any:
        """Stores a producer's result and gives its notice, or the result itself where it is small enough.

        Raises:
            OvertakenError: Another worker makes the workspace now; the ticket says for whom this one did.
        """
        payload = await Payload.of(result)
        if self.inline_below_chars > 0 and not payload.is_stream:
            chars = await on_cpu(lambda: encoded_chars(result))
            if chars < self.inline_below_chars:
                return result
        name = function_name(producer.function)
        draft = WorkspaceMeta(
            workspace_id=workspace_id or "",
            workspace_type=producer.workspace_type,
            producer_fn=name,
            producer_kwargs=arguments,
            extra=producer.meta,
            ttl=producer.ttl,
            index=producer.index,
        )
        rule = ReplaceRule(producer.workspace_type, (name, PIPELINE_PRODUCER), ticket)
        ref = await self.put(draft, payload, producer.toolsets, rule)
        return ref.to_dict() if producer.notify else ref


def _searched_fields(toolsets: Sequence[ToolSet]) -> Sequence[str] | None:
    """The fields that a search will look into: those of the first set that has a choice of them."""
    return next((toolset.searched_fields for toolset in toolsets if toolset.searched_fields is not None), None)
