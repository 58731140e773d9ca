"""A turn that OpenAI streams, put together again from its chunks or events."""

from __future__ import annotations

from typing import Any, Final

from toolstash.integrations.turns import items, part

_ENDINGS: Final = ("response.completed", "response.incomplete", "response.failed")


class StreamedTurn:
    """Takes the chunks of Chat Completions (of its choices the first), or the events of the Responses API.

        turn = StreamedTurn()
        async for chunk in stream:
            turn.add(chunk)

    Afterwards it serves `has_tool_calls` and `ahandle_tool_calls` in the place of a response.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._latest: dict[int, dict[str, Any]] = {}
        self._items: dict[int, Any] = {}
        self._output: list[Any] = []
        self._finish_reason: str | None = None
        self._has_ended = False

    def add(self, chunk: Any) -> None:
        """Takes the next chunk or event: an object of the SDK, or a dict. What is not of the turn is passed over."""
        kind = part(chunk, "type")
        if kind in _ENDINGS:
            self._output = items(part(chunk, "response"), "output") or [self._items[at] for at in sorted(self._items)]
            self._has_ended = True
        elif kind == "response.output_item.done":
            self._items[_index_of(chunk, "output_index")] = part(chunk, "item")
        for choice in items(chunk, "choices"):
            if not part(choice, "index"):
                self._add_choice(choice)

    @property
    def is_complete(self) -> bool:
        """Whether the turn has come to its end."""
        return self._has_ended or self._finish_reason is not None

    @property
    def text(self) -> str:
        """What a turn of Chat Completions has said so far."""
        return "".join(self._texts)

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message for the history of Chat Completions."""
        calls = {"tool_calls": self._calls} if self._calls else {}
        return {"role": "assistant", "content": self.text or None, **calls}

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The turn in the form of a completion; empty for the Responses API."""
        if self._has_ended or self._finish_reason is None:
            return []
        return [{"index": 0, "message": self.message, "finish_reason": self._finish_reason}]

    @property
    def output(self) -> list[Any]:
        """The items of the Responses API, for the next request's input; empty before the end."""
        return self._output

    def _add_choice(self, choice: Any) -> None:
        delta = part(choice, "delta")
        if isinstance(text := part(delta, "content"), str):
            self._texts.append(text)
        for piece in items(delta, "tool_calls"):
            self._add_piece(piece)
        self._finish_reason = part(choice, "finish_reason") or self._finish_reason

    def _add_piece(self, piece: Any) -> None:
        """Pieces belong together by their index; some servers give every call the same one, with an id of its own."""
        index, call_id, function = _index_of(piece, "index"), part(piece, "id"), part(piece, "function")
        call = self._latest.get(index)
        if call is None or (call_id and call["id"] and call_id != call["id"]):
            call = self._latest[index] = _empty_call()
            self._calls.append(call)
        call["id"] = call["id"] or call_id
        held = call["function"]
        held["name"] = held["name"] or part(function, "name")
        if isinstance(arguments := part(function, "arguments"), str):
            held["arguments"] += arguments


def _index_of(thing: Any, name: str) -> int:
    held = part(thing, name)
    return held if isinstance(held, int) else 0


def _empty_call() -> dict[str, Any]:
    return {"id": None, "type": "function", "function": {"name": None, "arguments": ""}}
