"""Whether the server can search, found out once by trying: what servers say of themselves is often forbidden to ask."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolstash.contracts import SHARED_SPACE, Address
from toolstash.errors import StoreUnavailableError
from toolstash.query.index import IndexShape, TextView
from toolstash.query.reply import ordered
from toolstash.query.search import K1, B, rarity_of
from toolstash.wire import keys as layout
from toolstash.wire import search
from toolstash.wire.connection import Connections
from toolstash.wire.faults import CommandRefused
from toolstash.wire.keys import Keys

logger = logging.getLogger("toolstash")

PROBE_SECONDS = 10.0

_PAD_WEIGHT = 32
_TIMES = (1, 1, 2)
_LENGTHS = (1, 1 + _PAD_WEIGHT, 2)
_MEAN = sum(_LENGTHS) / 3
_SHAPE = IndexShape(rows=3, text=TextView.of(None), mean_chars=_MEAN, columns={})
_ASKED = ordered("@t:(a) (-(-(@g:{x})))", (("n", False), ("__score", True)), 0, 3)


@dataclass(frozen=True, slots=True)
class Ability:
    """What the server's search can do.

    Attributes:
        b: Its b of BM25, which differs between versions of the module; None where it does not rank by BM25 as we know
            it, so that only Python ranks.
    """

    b: float | None


async def probe(connections: Connections, keys: Keys) -> Ability | None:
    """What the server's search can do; None where there is none, or none for this user. Says which in the log.

    Raises:
        StoreUnavailableError: The server does not answer, or is full, starting or handing over.
    """
    at = keys.workspace(Address(SHARED_SPACE, "probe"))
    build = layout.new_generation()
    index, documents = at.index(build), at.documents(build)
    asking = [
        search.create(at, build, _SHAPE.schema(), 60),
        ("HSET", f"{documents}0", "n", 0, "t", "a", "g", "x,y"),
        ("PEXPIRE", f"{documents}0", 60_000),
        ("HSET", f"{documents}1", "n", 1, "t", "a", "p1", "_", "g", "x"),
        ("PEXPIRE", f"{documents}1", 60_000),
        ("HSET", f"{documents}2", "n", 2, "t", "a a", "g", "x"),
        ("PEXPIRE", f"{documents}2", 60_000),
        search.aggregate(index, _ASKED),
        search.info(index),
        search.list_all(),
        search.last_document(index),
        search.drop(index),
        ("UNLINK", *(f"{documents}{number}" for number in range(3))),
    ]
    replies = await connections.pipelined(at.meta, asking, seconds=PROBE_SECONDS)
    refused = next((reply for reply in replies if isinstance(reply, CommandRefused)), None)
    if refused is not None and refused.passes:
        raise StoreUnavailableError(f"The data store cannot say now whether it searches ({refused.message[:100]}).")
    if refused is not None:
        _explain(refused.message)
        return None
    return _ability_of(replies[7])


def _explain(message: str) -> None:
    if search.is_unknown_command(message):
        logger.info("the data store has no search module: Python answers all questions")
    elif search.is_no_right(message):
        logger.warning("the data store's user may not use its search commands: Python answers (%s)", message[:200])
    else:
        logger.warning("the data store's search lacks what is needed: Python answers (%s)", message[:200])


def _ability_of(reply: Any) -> Ability | None:
    """What the scores of the probe's three documents say: the b that explains them all."""
    try:
        total, rows = search.aggregate_reply(reply)
        scores = [float(row["__score"]) for row in rows]
    except (LookupError, TypeError, ValueError, AttributeError):
        total, scores = 0, []
    if total != len(_TIMES) or len(scores) != len(_TIMES):
        logger.warning("the data store's search does not find what it should: Python answers")
        return None
    b = _b_of(scores)
    if b is None:
        logger.warning("the data store's search ranks in a way that Python cannot repeat: Python searches")
    return Ability(b)


def _b_of(scores: Sequence[float]) -> float | None:
    if not 0 < scores[0] < math.inf:
        return None
    first = (rarity_of(3, 3) * (K1 + 1) / scores[0] - 1) / K1
    b = round((first - 1) / (_LENGTHS[0] / _MEAN - 1), 6)
    if not B - 1e-6 <= b <= 1:
        return None
    expected = [_score(times, length, b) for times, length in zip(_TIMES, _LENGTHS, strict=True)]
    is_explained = all(math.isclose(score, other, rel_tol=1e-5) for score, other in zip(scores, expected, strict=True))
    return b if is_explained else None


def _score(times: int, length: int, b: float) -> float:
    return rarity_of(3, 3) * times * (K1 + 1) / (times + K1 * (1 - b + b * length / _MEAN))
