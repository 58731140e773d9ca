"""Whether the server can search, found out once by trying: what servers say of themselves is often forbidden to ask."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from toolstash.contracts import SHARED_SPACE, Address
from toolstash.query.index import IndexShape, TextView
from toolstash.query.reply import RANKED, ordered
from toolstash.query.search import K1, B
from toolstash.wire import keys as layout
from toolstash.wire import search
from toolstash.wire.connection import Connections
from toolstash.wire.faults import CommandRefused
from toolstash.wire.keys import Keys

logger = logging.getLogger("toolstash")

PROBE_SECONDS = 10.0

_PAD_WEIGHT = 32
_SHAPE = IndexShape(rows=2, text=TextView.of(None), mean_chars=17, columns={})
_ASKED = ordered("@t:(a) (-(-(@g:{x})))", RANKED, 0, 2)


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
        StoreUnavailableError: The server does not answer.
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
        search.aggregate(index, _ASKED),
        search.info(index),
        search.list_all(),
        search.last_document(index),
        search.drop(index),
        ("UNLINK", f"{documents}0", f"{documents}1"),
    ]
    replies = await connections.pipelined(at.meta, asking, seconds=PROBE_SECONDS)
    refused = next((reply for reply in replies if isinstance(reply, CommandRefused)), None)
    if refused is not None:
        _explain(refused.message)
        return None
    return Ability(_b_of(search.aggregate_reply(replies[5])))


def _explain(message: str) -> None:
    if search.is_unknown_command(message):
        logger.info("the data store has no search module: Python answers all questions")
    elif search.is_no_right(message):
        logger.warning("the data store's user may not use its search commands: Python answers (%s)", message[:200])
    else:
        logger.warning("the data store's search lacks what is needed: Python answers (%s)", message[:200])


def _b_of(reply: tuple[int, list[dict[str, str]]]) -> float | None:
    """The b that explains both scores of the probe: documents of 1 and of 33 tokens, each with the word once."""
    scores = [float(row["__score"]) for row in reply[1]]
    if len(scores) != 2 or min(scores) <= 0:
        logger.warning("the data store's search does not find what it should: Python searches")
        return None
    rarity = (K1 + 1) * math.log(1 + 0.5 / 2.5)
    lengths = (1, 1 + _PAD_WEIGHT)
    mean = sum(lengths) / 2
    found = [((rarity / s - 1) / K1 - 1) / (length / mean - 1) for s, length in zip(scores, lengths, strict=True)]
    b = round(found[0], 6)
    if abs(found[0] - found[1]) > 1e-6 or not B - 1e-6 <= b <= 1:
        logger.warning("the data store's search ranks in a way that Python cannot repeat: Python searches")
        return None
    return b
