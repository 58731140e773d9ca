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
    return (*place, *lasting, "SKIPINITIALSCAN", "NOHL", "STOPWORDS", 0, "SCHEMA", *schema)


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


def last_document(index: str) -> Command:
    """The key of the document with the highest number."""
    return ("FT.SEARCH", index, "*", "NOCONTENT", "SORTBY", "n", "DESC", "LIMIT", 0, 1, "TIMEOUT", 0, "DIALECT", 2)


def aggregate_reply(reply: Any) -> tuple[int, list[dict[str, str]]]:
    """How many results there are, and those that were asked for, as fields; a field without a value is left out."""
    rows = [zip(row[::2], row[1::2], strict=True) for row in reply[1:]]
    return int(reply[0]), [{name.decode(): value.decode() for name, value in row if value is not None} for row in rows]


def document_count(reply: Any) -> int:
    """How many documents an index has, by what `info` replied."""
    return int(dict(zip(reply[::2], reply[1::2], strict=True))[b"num_docs"])


def memory_bytes(reply: Any) -> float:
    """What an index takes without its documents, by what `info` replied; 0 where the server does not say."""
    return 1e6 * float(dict(zip(reply[::2], reply[1::2], strict=True)).get(b"total_index_memory_sz_mb", 0))


def rows_covered(reply: Any) -> int:
    """How many rows have documents, counted up to the last one, by what `last_document` replied."""
    return int(reply[1].rpartition(b":")[2]) + 1 if len(reply) > 1 else 0


def is_unknown_command(message: str) -> bool:
    """Whether a refusal says that there is no search module."""
    return "unknown command" in message.lower()


def is_no_index(message: str) -> bool:
    """Whether a refusal says that there is no index of that name."""
    text = message.lower()
    return "no such index" in text or "unknown index" in text or "index_not_found" in text


def is_no_right(message: str) -> bool:
    """Whether a refusal says that the user may not run the command."""
    return message.upper().startswith("NOPERM") or "no permissions" in message.lower()
