"""A worker of a soak whose store now and then reads another session's workspace, turns rows round, or fails."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.soak.marks import session_name
from benchmarks.soak.work import LASTING
from benchmarks.soak.worker import main

from toolstash import RedisStore
from toolstash.contracts import Address
from toolstash.store.primitives import Reading
from toolstash.wire.keys import label_of, space_of_session

OTHER = space_of_session(session_name(0))


class LyingStore(RedisStore):
    """Answers rightly, but for every twentieth read: a foreign one, rows the wrong way round, an exception."""

    _turns = itertools.count(1)

    async def read(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        turn = next(self._turns) % 60
        if turn == 0:
            return await super().read(Address(OTHER, LASTING + label_of(OTHER)), start, stop)
        meta, rows = await super().read(at, start, stop)
        if turn == 20 and isinstance(rows, list):
            torn: list[Any] = rows[::-1]
            return Reading(meta, torn)
        if turn == 40:
            raise ZeroDivisionError("made to fail")
        return Reading(meta, rows)


if __name__ == "__main__":
    main(LyingStore)
