"""Pages of, and searches in, text workspaces."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from toolstash.contracts import WorkspaceMeta
from toolstash.errors import InvalidArgumentError, WorkspaceShapeMismatchError
from toolstash.store.cpu import on_cpu
from toolstash.tools.bound import PAGE_CHARS
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet, ToolSetSpec, make_toolset
from toolstash.toolsets.bounds import at_least

CHARS_PER_PAGE = 3_000
MAX_CHARS_PER_PAGE = 20_000
MAX_CONTEXT_CHARS = 1_000
MAX_RESULTS = 50
MAX_QUERY_CHARS = 1_000


def text_content(
    ctx: Ctx,
    name: str | None = None,
    *,
    chars_per_page: int = CHARS_PER_PAGE,
    max_chars_per_page: int = MAX_CHARS_PER_PAGE,
    enforce_type: bool = True,
) -> ToolSet | ToolSetSpec:
    """Tools `read_page`, `search_in_text` and `get_length` for text.

    Args:
        name: What tool names start with; None: the producer's workspace type.
        chars_per_page: Code points of a page where the model names no size.
        max_chars_per_page: Code points of a page at most.
        enforce_type: Whether only workspaces of the type `name` are accepted.

    Raises:
        ValueError: A size is below 1, or the default is above the maximum.
    """
    if not 1 <= chars_per_page <= max_chars_per_page:
        raise ValueError("1 <= chars_per_page <= max_chars_per_page is needed")
    return make_toolset(
        ctx,
        name,
        lambda toolset: _Text(toolset, chars_per_page, max_chars_per_page).register(),
        enforce_type=enforce_type,
    )


class _Text:
    """The tools of one set."""

    def __init__(self, toolset: ToolSet, page_chars: int, max_page_chars: int) -> None:
        self._toolset = toolset
        self._page_chars = page_chars
        self._max_page_chars = max_page_chars

    def register(self) -> None:
        """Puts the tools into the set."""
        hint = (
            "Read on with the next page while has_next is true; "
            f"{self._toolset.tool_name_of('search_in_text')}(workspace_id='{{workspace_id}}', query=…) finds a passage."
        )
        page_size = {"chars_per_page": {"default": self._page_chars}}
        self._toolset.add_builtin(self.read_page, "scalar", output_hint=hint, schema_extra=page_size)
        for function in (self.search_in_text, self.get_length):
            self._toolset.add_builtin(function, "scalar")

    async def _read(self, workspace_id: str, start: int, stop: int | None) -> tuple[WorkspaceMeta, str]:
        meta, text = await self._toolset.checked(lambda store, at: store.read(at, start, stop), workspace_id, "scalar")
        if not isinstance(text, str):
            raise WorkspaceShapeMismatchError(
                f"The workspace holds no text but the value {text!s:.60}.",
                workspace_id=meta.workspace_id[:150],
                expected_shape="text",
                actual_shape="scalar",
                suggested_action="The value stands in this message; no tool is needed to read it.",
            )
        return meta, text

    async def read_page(self, workspace_id: str, page: int = 0, chars_per_page: int | None = None) -> dict[str, Any]:
        """Return one page of the text.

        Args:
            workspace_id: Id from the notice.
            page: Page number, from 0 on.
            chars_per_page: Characters on a page.
        """
        at_least("page", page, 0)
        most = self._toolset.room(2 * self._max_page_chars) // 2  # in JSON a line break or a quote takes two characters
        wanted = at_least("chars_per_page", self._page_chars if chars_per_page is None else chars_per_page, 1)
        taken = min(wanted, most)
        start = page * taken
        meta, text = await self._read(workspace_id, start, start + taken)
        pages = _pages(meta.chars, taken)
        answer: dict[str, Any] = {
            "text": text,
            "page": page,
            "total_pages": pages,
            "char_offset": min(start, meta.chars),
            "chars_in_page": len(text),
            "words": len(text.split()),
            "total_chars": meta.chars,
            "has_next": start + taken < meta.chars,
            "has_prev": page > 0,
        }
        if taken < wanted:
            answer["limited_by"] = "size"
            answer["suggested_action"] = (
                f"A page has at most {taken} characters: count pages with chars_per_page={taken}."
            )
        if page >= pages:
            answer["suggested_action"] = f"There is nothing on this page; the last page is {pages - 1}."
        return answer

    async def search_in_text(
        self, workspace_id: str, query: str, context_chars: int = 150, max_results: int = 10
    ) -> dict[str, Any]:
        """Find a phrase in the text, in any case, with what stands around each place.

        Args:
            workspace_id: Id from the notice.
            query: The phrase.
            context_chars: Characters to show on each side.
            max_results: Places to show.
        """
        if not query.strip():
            raise InvalidArgumentError(
                "The query is empty.", argument="query", suggested_action="Pass the words to look for."
            )
        if len(query) > MAX_QUERY_CHARS:
            raise InvalidArgumentError(
                f"The query has {len(query):,} characters; at most {MAX_QUERY_CHARS:,}.",
                argument="query",
                suggested_action="Pass a shorter phrase.",
            )
        wanted = min(at_least("max_results", max_results, 1), MAX_RESULTS)
        room = self._toolset.room(PAGE_CHARS) // wanted
        around = min(at_least("context_chars", context_chars, 0), MAX_CONTEXT_CHARS, room // 2)
        meta, text = await self._read(workspace_id, 0, None)
        spans, total = await on_cpu(lambda: _find(text, query, wanted))
        answer: dict[str, Any] = {
            "query": query[:200],
            "match_count": len(spans),
            "total_matches": total,
            "has_more": total > wanted,
            "matches": [
                {
                    "match_index": place,
                    "char_offset": start,
                    "context": text[max(0, start - around) : min(end, start + room) + around],
                    "page": start // self._page_chars,
                }
                for place, (start, end) in enumerate(spans)
            ],
            "total_chars": meta.chars,
        }
        if answer["has_more"]:
            answer["suggested_action"] = "Search for a longer phrase, or read around a place with its page number."
        return answer

    async def get_length(self, workspace_id: str) -> dict[str, Any]:
        """Return how long the text is in characters, words, lines and pages.

        Args:
            workspace_id: Id from the notice.
        """
        meta, text = await self._read(workspace_id, 0, None)
        words, lines = await on_cpu(lambda: (len(text.split()), text.count("\n") + 1 if text else 0))
        return {
            "workspace_id": meta.workspace_id,
            "chars": meta.chars,
            "words": words,
            "lines": lines,
            "pages": _pages(meta.chars, self._page_chars),
        }


def _pages(chars: int, size: int) -> int:
    return max(1, -(-chars // size))


def _find(text: str, query: str, wanted: int) -> tuple[list[tuple[int, int]], int]:
    """The first places, and how many there are in all."""
    places = re.finditer(re.escape(query), text, re.IGNORECASE)
    first = [match.span() for match in islice(places, wanted)]
    return first, len(first) + sum(1 for _ in places)
