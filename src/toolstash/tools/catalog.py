"""The tools of a Ctx: what there is by name, which tool sets explore which type, and what models are told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from toolstash.tools.consumer import Consumer
from toolstash.tools.describe import toolsets_of
from toolstash.tools.exporting import (
    consumers_of,
    explorers_of,
    exported,
    only_workspace,
    producers_of,
    whole_tools_of,
)
from toolstash.tools.guide import guide
from toolstash.tools.producer import Producer
from toolstash.tools.tool import Tool, entry_of
from toolstash.tools.toolset import ToolEntry, ToolSet

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx


class Catalog:
    """Tools by name, in the order of registration.

    Args:
        safe: Whether exceptions of producers, consumers and tools made by hand come back from a dispatch as values.
    """

    def __init__(self, *, safe: bool) -> None:
        self.safe = safe
        self.entries: dict[str, ToolEntry] = {}
        self.toolsets: dict[str, ToolSet] = {}
        self.producers: dict[str, Producer] = {}
        self.consumers: list[Consumer] = []
        self.exposed_consumers: set[str] = set()

    def toolset(self, name: str, *, enforce_type: bool = True) -> ToolSet:
        """The tool set of that name, made if it is new.

        Raises:
            ValueError: It is there with another `enforce_type`.
        """
        toolset = self.toolsets.get(name)
        if toolset is None:
            toolset = ToolSet(name, enforce_type=enforce_type)
            self.add_toolset(toolset)
        elif toolset.enforce_type != enforce_type:
            raise ValueError(f"the tool set '{name}' is there already with enforce_type={toolset.enforce_type}")
        return toolset

    def add_toolset(self, toolset: ToolSet) -> None:
        """Makes a tool set that was built by hand part of this Ctx.

        Raises:
            ValueError: Another one of that name is there, a tool's name is taken, or it belongs to another Ctx.
        """
        if self.toolsets.get(toolset.name, toolset) is not toolset:
            raise ValueError(f"there is another tool set of the name '{toolset.name}'")
        toolset.attach(cast("Ctx", self))
        for entry in toolset.entries.values():
            self.register(entry)
        self.toolsets[toolset.name] = toolset

    def add_tool(self, tool: Tool) -> Tool:
        """Makes a tool that was built by hand part of this Ctx. Returns it.

        Raises:
            ValueError: Another tool has that name.
        """
        self.register(entry_of(tool, safe=self.safe))
        return tool

    def register(self, entry: ToolEntry) -> None:
        """Makes a tool callable by name.

        Raises:
            ValueError: Another function, or another tool set, has that name. (The same function may be defined again,
                as in a notebook.)
        """
        held = self.entries.get(entry.name)
        if held is not None and (held.origin != entry.origin or held.toolset is not entry.toolset):
            owner = held.toolset.name if held.toolset is not None else ".".join(held.origin)
            raise ValueError(f"the tool name '{entry.name}' is taken by {owner}; give one of them another name")
        self.entries[entry.name] = entry

    def toolsets_for_type(self, workspace_type: str) -> Sequence[ToolSet]:
        """The tool sets that explore a type: those of its producers and consumers, and the one of that name."""
        outputs = [(producer.workspace_type, producer.toolsets) for producer in self.producers.values()]
        outputs += [(consumer.output.workspace_type, consumer.output.toolsets or ()) for consumer in self.consumers]
        return toolsets_of(workspace_type, outputs, self.toolsets)

    # Schemas

    def get_tools(
        self,
        workspace_id: str | None = None,
        *,
        toolsets: Sequence[str | ToolSet] | None = None,
        names: Sequence[str] | None = None,
        strict: bool = False,
    ) -> list[dict[str, Any]]:
        """The tools in OpenAI form: producers, consumers, those of the tool sets, those of `add_tool`; in that order.

        Args:
            workspace_id: `workspace_id` admits only this one, in tool sets and consumers. No tool is left out for it.
            toolsets: Only the tools of these sets, given by name or themselves; no producers and consumers.
            names: Only the tools of these names.
            strict: In the form of OpenAI's strict mode. A tool that has none is given with `"strict": False` in its
                usual form; `docs/schemas.md` says which.

        Raises:
            ValueError: A tool set or a tool is unknown; it names those that are near.
            TypeError: `toolsets` or `names` is a single text.
        """
        return exported(self, workspace_id, toolsets=toolsets, names=names, strict=strict)

    def get_producer_schemas(self) -> list[dict[str, Any]]:
        """The producers in OpenAI form."""
        return [entry.schema.to_openai() for entry in producers_of(self)]

    def get_consumer_schemas(self) -> list[dict[str, Any]]:
        """The consumers in OpenAI form."""
        return [entry.schema.to_openai() for entry in consumers_of(self)]

    def get_all_tool_schemas(self, workspace_id: str | None = None) -> list[dict[str, Any]]:
        """The tools of all tool sets in OpenAI form, then those of `add_tool`."""
        enums = only_workspace(workspace_id)
        return [entry.schema.to_openai(enums=enums) for entry in (*explorers_of(self), *whole_tools_of(self))]

    def system_prompt(self, preamble: str = "") -> str:
        """What a model should know of how these tools go together, for a system prompt. Empty without tools.

        It names only what there is, and is the same in every process.

        Args:
            preamble: Put before it, with an empty line between.
        """
        return "\n\n".join(filter(None, (preamble.strip(), guide(self))))
