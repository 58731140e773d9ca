"""Full-text search: which rows match, best first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolstash.query.haystack import Haystack
from toolstash.query.terms import Query, Rung, Term
from toolstash.query.work import Work

K1 = 1.2
B = 0.75


@dataclass(frozen=True)
class Found:
    """The rows that match with their scores; `matched_by` says which rung answered, `terms` what it looked for."""

    scores: Mapping[int, float]
    matched_by: Rung
    terms: Sequence[Term]

    @cached_property
    def ranked(self) -> list[int]:
        """All rows, best first; rows of equal score keep their order."""
        return sorted(sorted(self.scores), key=self.scores.__getitem__, reverse=True)

    def best(self, count: int) -> list[int]:
        """The first of `ranked`, without ranking the rest."""
        return heapq.nlargest(count, sorted(self.scores), key=self.scores.__getitem__)


def search(haystack: Haystack, query: Query, work: Work, within: Collection[int] | None = None) -> Found:
    """Looks for any of the query's terms, rung by rung. `within` are the rows that count; None for all.

    Rows are ranked by BM25 (Robertson and Zaragoza 2009, k1 = 1.2, b = 0.75), summed over the terms, with the
    length of a row in characters and idf = ln(1 + (N - n + 0.5) / (n + 0.5)); equal scores keep the order of the rows.
    """
    counted: dict[Term, Mapping[int, int]] = {}
    for rung, terms in query.rungs:
        scores: dict[int, float] = {}
        answered: Rung = "substring"
        for term in terms:
            if term not in counted:
                counted[term] = haystack.count(term, work)
            if _add_scores(haystack, counted[term], scores, within) and _ORDER[term.rung] < _ORDER[answered]:
                answered = term.rung
        if scores:
            return Found(scores, answered if rung == "word" else rung, terms)
    last_rung, last_terms = query.rungs[-1]
    return Found({}, last_rung, last_terms)


_ORDER: dict[Rung, int] = {"word": 0, "prefix": 1, "substring": 2}


def _add_scores(
    haystack: Haystack, counts: Mapping[int, int], scores: dict[int, float], within: Collection[int] | None
) -> bool:
    """Adds one term's share to the scores; whether any of the rows that count has it."""
    lengths, size = haystack.lengths, len(haystack)
    rarity = (K1 + 1) * math.log(1 + (size - len(counts) + 0.5) / (len(counts) + 0.5))
    per_char = K1 * B / max(1.0, sum(lengths) / max(1, size))
    matched = False
    for row, times in counts.items():
        if within is None or row in within:
            matched = True
            score = rarity * times / (times + K1 * (1 - B) + per_char * lengths[row])
            scores[row] = scores.get(row, 0.0) + score
    return matched
