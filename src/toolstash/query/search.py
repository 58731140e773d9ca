"""Full-text search: which rows match, best first."""

from __future__ import annotations

import ctypes
import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolstash.query.haystack import Haystack
from toolstash.query.terms import Query, Rung, Term
from toolstash.query.work import Work

K1 = 1.2000000476837158  # 1.2 as the search module has it, in single precision
B = 0.5


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

    Rows are ranked by BM25 (Robertson and Zaragoza 2009) with the constants of the search module of Redis, k1 = 1.2 and
    b = 0.5, summed over the words of the terms that a row has. The length of a row is in characters, and
    idf = ln(1 + (N - n + 0.5) / (n + 0.5)); equal scores keep the order of the rows. All is rounded where the module
    rounds, so that for one word the same rows have equal scores in both.
    """
    counted = _Counts(haystack, work)
    for rung, terms in query.rungs:
        scores: dict[int, float] = {}
        answered: Rung = "substring"
        for term in terms:
            rows: Collection[int] = counted[term].keys()
            if within is not None:
                rows = [row for row in rows if row in within]
            shares = [counted[word] for word in term.words or (term,)]
            _add_scores(haystack, shares, rows, scores)
            if rows and _ORDER[term.rung] < _ORDER[answered]:
                answered = term.rung
        if scores:
            return Found(scores, answered if rung == "word" else rung, terms)
    last_rung, last_terms = query.rungs[-1]
    return Found({}, last_rung, last_terms)


_ORDER: dict[Rung, int] = {"word": 0, "prefix": 1, "substring": 2}


class _Counts(dict[Term, Mapping[int, int]]):
    """How often each term stands in which rows, counted when it is first asked for."""

    def __init__(self, haystack: Haystack, work: Work) -> None:
        super().__init__()
        self._haystack = haystack
        self._work = work

    def __missing__(self, term: Term) -> Mapping[int, int]:
        counts = self[term] = self._haystack.count(term, self._work)
        return counts


def _add_scores(
    haystack: Haystack, words: Sequence[Mapping[int, int]], rows: Iterable[int], scores: dict[int, float]
) -> None:
    """Adds a term's share to the scores of some rows: the sum of those of its words, by how often each stands where."""
    lengths, size = haystack.lengths, len(haystack)
    weighed = [(counts, rarity_of(size, len(counts))) for counts in words]
    mean = max(1.0, sum(lengths) / max(1, size))
    for row in rows:
        damping = K1 * (1 - B + B * lengths[row] / mean)
        share = 0.0
        for counts, rarity in weighed:
            times = counts.get(row, 0)
            share += rarity * times * (K1 + 1) / (times + damping)
        scores[row] = scores.get(row, 0.0) + share


def rarity_of(rows: int, having: int) -> float:
    """The idf of a word that `having` of the rows have, in single precision up to its logarithm as in the module."""
    return math.log(_single(1 + _single(_single(rows - having + 0.5) / _single(having + 0.5))))


def _single(number: float) -> float:
    return ctypes.c_float(number).value
