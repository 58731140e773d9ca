"""The commands of the search module (RediSearch), and what their replies say. Only here does FT.CREATE get a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolstash.wire.keys import WorkspaceKeys

Command = tuple[Any, ...]

_LONGEST_IDLE_SECONDS = 30 * 24 * 3600


def create(at: WorkspaceKeys, build: str, schema: Sequence[str], life_seconds: float | None) -> Command:
    """Makes an empty index of the documents of one build.

    With a life, the index drops itself when it was not asked for that long: a net for what no sweep comes across.
    """
    lasting = () if life_seconds is None else ("TEMPORARY", min(_LONGEST_IDLE_SECONDS, int(life_seconds) + 2))
    place = ("FT.CREATE", at.index(build), "ON", "HASH", "PREFIX", 1, at.documents(build))
    return (*place, *lasting, "SKIPINITIALSCAN", "STOPWORDS", 0, "SCHEMA", *schema)


def aggregate(index: str, words: Sequence[str]) -> Command:
    """Asks an index."""
    return ("FT.AGGREGATE", index, *words)


def info(index: str) -> Command:
    """Asks how an index is."""
    return ("FT.INFO", index)


def drop(index: str) -> Command:
    """Drops an index and leaves its documents."""
    return ("FT.DROPINDEX", index)


def list_all() -> Command:
    """The names of all indexes of the server, also of others."""
    return ("FT._LIST",)


def some_documents(index: str, count: int) -> Command:
    """The keys of some documents of an index."""
    return ("FT.SEARCH", index, "*", "NOCONTENT", "LIMIT", 0, count, "DIALECT", 2)


def aggregate_reply(reply: Any) -> tuple[int, list[dict[str, str]]]:
    """How many results there are, and those that were asked for, as fields."""
    rows = [[word.decode() for word in row] for row in reply[1:]]
    return int(reply[0]), [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


def document_count(reply: Any) -> int:
    """How many documents an index has, by what `info` replied."""
    return _fact(reply, b"num_docs")


def documents_ever(reply: Any) -> int:
    """How many documents were ever written to an index, by what `info` replied."""
    return _fact(reply, b"max_doc_id")


def _fact(reply: Any, name: bytes) -> int:
    return int(dict(zip(reply[::2], reply[1::2], strict=True))[name])


def is_unknown_command(message: str) -> bool:
    """Whether a refusal says that there is no search module."""
    return "unknown command" in message.lower()


def is_no_right(message: str) -> bool:
    """Whether a refusal says that the user may not run the command."""
    return message.upper().startswith("NOPERM") or "no permissions" in message.lower()
