"""Rows that say whose they are, and what is wrong with rows that are not as they were written.

All rows of a workspace name its session, its own name and one batch; `n` is a row's place; the batch ends in how many
rows were stored. The first row counts how often it was patched. So for a version `<generation>.<edits>`:
edits = patches + rows appended.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Sequence
from typing import Any

import orjson

from toolstash.wire.keys import label_of, space_of_session

LEAST_ROWS, MOST_ROWS = 20, 60
NEEDLE = "needle"
NEEDLE_EVERY = 5
WORDS = ["memory", "agent", "planning", "reward", "policy", "vision", "language", "token", "sparse", "dense", "kernel"]

_SESSION = re.compile(rb"<s\d+>")
_LABEL = re.compile(rb"@[0-9a-f]{12}")


def session_name(number: int) -> str:
    """How the session of that number is called."""
    return f"<s{number}>"


def workspace_id(session: str, name: str) -> str:
    """The id that a workspace of that key has in that session."""
    return name + label_of(space_of_session(session))


def new_rows(session: str, workspace: str, pick: random.Random) -> list[dict[str, Any]]:
    """A fresh batch of rows."""
    count = pick.randint(LEAST_ROWS, MOST_ROWS)
    batch = f"{secrets.token_hex(6)}-{count}"
    return [new_row(session, workspace, batch, n, pick, stored=True) for n in range(count)]


def new_row(
    session: str, workspace: str, batch: str, n: int, pick: random.Random, *, stored: bool = False
) -> dict[str, Any]:
    """One row; those that were stored first hold the needle now and then, appended ones never."""
    words = " ".join(pick.choices(WORDS, k=8))
    text = f"{words} {NEEDLE}" if stored and n % NEEDLE_EVERY == 0 else words
    return {"session": session, "workspace": workspace, "batch": batch, "n": n, "counter": 0, "text": text}


def stored_rows(batch: str) -> int:
    """How many rows a batch was stored with."""
    return int(batch.partition("-")[2])


def needles(batch: str) -> int:
    """How many rows of a batch hold the needle."""
    return -(-stored_rows(batch) // NEEDLE_EVERY)


def foreign_marks(answer: Any, session: str, *, but: str = "") -> list[str]:
    """Marks of other sessions anywhere in an answer: in rows, ids, texts of errors. `but` is left out of it."""
    document = orjson.dumps(answer)
    if but:
        document = document.replace(but.encode(), b"")
    own = {session.encode(), label_of(space_of_session(session)).encode()}
    found = {*_SESSION.findall(document), *_LABEL.findall(document)}
    return sorted(mark.decode() for mark in found - own)


def torn(rows: Sequence[Any], first: int, workspace: str) -> str:
    """What is wrong with rows that should be those from `first` on; "" for nothing."""
    if not rows:
        return ""
    batches = {row["batch"] for row in rows}
    if len(batches) > 1:
        return f"rows of {len(batches)} batches together: {sorted(batches)[:3]}"
    places = [row["n"] for row in rows]
    if places != list(range(first, first + len(rows))):
        return f"rows from {first} on should be in order, not {places[:12]}"
    names = {row["workspace"] for row in rows} - {workspace}
    return f"rows of workspace {names} in '{workspace}'" if names else ""
