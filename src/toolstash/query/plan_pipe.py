"""The leading steps of a pipeline by an index: filter, search, sort, limit, group_by, count. Python does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolstash.fieldpath import MISSING
from toolstash.query.clauses import NotIndexedError, condition_clauses, unscored, words_clause
from toolstash.query.conditions import AllOf, AnyOf, Leaf
from toolstash.query.grouping import Grouping
from toolstash.query.index import IndexShape, TextView
from toolstash.query.pipeline import Pipeline
from toolstash.query.plan_groups import IndexedGrouping
from toolstash.query.questions import Pipe, Piped
from toolstash.query.reply import EVERYTHING, IN_ROW_ORDER, RANKED, Order, Reply, ordered
from toolstash.query.steps import Searched, Sorted, Step
from toolstash.query.table import RowsTable, field_of
from toolstash.query.work import Work

MOST_FETCHED = 1_000
MOST_GROUPS = 2_000
MOST_SORT_KEYS = 8  # the module's own limit
MOST_SKIPPED = 10_000

NamedStep = tuple[int, str, Step]

_ROW_BY_ROW = ("select", "exclude")


def sort_field(shape: IndexShape, path: str) -> str:
    """The field of documents that sorts rows as Python does.

    Raises:
        NotIndexedError: The column holds other values than numbers, or both nulls and missing ones, whose order the
            index does not know.
    """
    column = shape.columns.get(path)
    if column is None or not column.is_numeric or column.kinds >= {"null", "missing"}:
        raise NotIndexedError
    return f"v{column.place}"


def text_clause(asked: Searched, shape: IndexShape) -> str:
    """The clause of a search.

    Raises:
        NotIndexedError: The index has other texts, or only a scan finds some of the words.
    """
    is_repeated = asked.fields is not None and len(set(asked.fields)) < len(asked.fields)
    if is_repeated or shape.text != TextView.of(asked.fields):
        raise NotIndexedError
    return words_clause(asked.query)


@dataclass(slots=True)
class _Draft:
    """What the steps so far come to."""

    shape: IndexShape
    filters: list[str] = field(default_factory=list[str])
    words: str | None = None
    order: Order = IN_ROW_ORDER
    start: int = 0
    stop: int | None = None
    is_cut: bool = False
    shaping: list[NamedStep] = field(default_factory=list[NamedStep])
    grouping: IndexedGrouping | None = None
    counts: bool = False

    def take(self, named: NamedStep) -> bool:
        """Adds a step; False where Python has to go on from here.

        Raises:
            NotIndexedError: The index cannot do the step, and all rows would have to be fetched for it.
        """
        _, name, step = named
        if self.grouping is not None:
            return False
        if name == "count":
            self.counts = True
        elif name in _ROW_BY_ROW:
            self.shaping.append(named)
        elif step.window is not None:
            self._cut(*step.window)
        elif self.is_cut:
            return False
        elif self.shaping:
            raise NotIndexedError
        else:
            self._add(step)
        return True

    def _add(self, step: Step) -> None:
        asks = step.asks
        if isinstance(asks, (Leaf, AllOf, AnyOf)):
            self.filters += condition_clauses(asks, self.shape)
        elif isinstance(asks, Searched) and self.words is None:
            self.words, self.order = text_clause(asks, self.shape), RANKED
        elif isinstance(asks, Sorted):
            keys = [(sort_field(self.shape, path), descending) for path, descending in asks.orders]
            self.order = [*keys, *(key for key in self.order if key[0] not in dict(keys))]
            if step.takes is not None:
                self._cut(0, step.takes)
        elif isinstance(asks, Grouping) and self.order == IN_ROW_ORDER:
            self.grouping = IndexedGrouping(asks, self.shape)
        else:
            raise NotIndexedError

    def _cut(self, start: int, stop: int | None) -> None:
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        self.start, self.stop, self.is_cut = self.start + start, min(ends, default=None), True

    def clause(self) -> str:
        """All that rows must meet."""
        words = [] if self.words is None else [self.words]
        return " ".join([*words, *self.filters]) or EVERYTHING

    def ranked_clause(self) -> str:
        """The same, where only words may add to the score: a filter is negated twice for that.

        Raises:
            NotIndexedError: Beside filters the module forgets all but one of several words, and even loses rows.
        """
        is_ranked = any(name == "__score" for name, _ in self.order)
        if self.words is None or not self.filters or not is_ranked:
            return self.clause()
        if "|" in self.words:
            raise NotIndexedError
        return " ".join([self.words, *map(unscored, self.filters)])

    def left_of(self, matched: int) -> int:
        """How many rows are left after the limits."""
        stop = matched if self.stop is None else min(self.stop, matched)
        return max(0, stop - self.start)


def plan_pipe(question: Pipe, shape: IndexShape) -> CountPlan | GroupsPlan | RowsPlan:
    """Raises NotIndexedError where the index cannot answer."""
    draft = _Draft(shape)
    steps = list(question.pipeline.steps)
    taken = 0
    while taken < len(steps) and draft.take(steps[taken]):
        taken += 1
    rest = steps[taken:]
    if draft.counts:
        if not _all_known(draft.shaping, [], shape):
            raise NotIndexedError
        return CountPlan(draft)
    if draft.grouping is not None:
        return GroupsPlan(question, draft, draft.grouping, rest)
    return RowsPlan.of(question, draft, rest)


@dataclass(frozen=True, slots=True)
class CountPlan:
    """Steps that end in a count."""

    draft: _Draft

    @property
    def words(self) -> list[str]:
        return ordered(self.draft.clause(), IN_ROW_ORDER, 0, 0)

    def positions(self, reply: Reply) -> list[int]:
        return []

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Piped | None:
        return Piped([], 0, count=self.draft.left_of(reply.total)) if reply.total else None


@dataclass(frozen=True, slots=True)
class GroupsPlan:
    """Filters, a group_by, and what Python makes of the groups."""

    question: Pipe
    draft: _Draft
    grouping: IndexedGrouping
    rest: Sequence[NamedStep]

    @property
    def words(self) -> list[str]:
        return self.grouping.words(self.draft.clause(), MOST_GROUPS)

    def positions(self, reply: Reply) -> list[int]:
        return []

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Piped | None:
        if not 0 < reply.total <= MOST_GROUPS:
            return None
        state = Pipeline(self.rest).run(RowsTable(self.grouping.rows(reply)), work)
        return Piped.of(state, self.question.limit)


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """Filters, words and an order; of the rows, those of the window. `count` of them are fetched."""

    question: Pipe
    draft: _Draft
    clause: str
    rest: Sequence[NamedStep]
    count: int

    @classmethod
    def of(cls, question: Pipe, draft: _Draft, rest: Sequence[NamedStep]) -> RowsPlan:
        """Raises NotIndexedError where too many rows would have to be fetched, or their order is not the index's."""
        if any(isinstance(step.asks, Grouping) for _, _, step in rest[:-1]):
            raise NotIndexedError  # what a step names behind it may be no field of the groups, which is worth a hint
        if any(isinstance(step.asks, Searched) for _, _, step in rest) or len(draft.order) > MOST_SORT_KEYS:
            raise NotIndexedError  # a search ranks by all rows of the workspace
        left = MOST_FETCHED + 1 if draft.stop is None else draft.stop - draft.start
        needs_all = bool(rest) or question.wants_all
        count = max(0, left if needs_all else min(left, question.limit))
        if count > MOST_FETCHED or draft.start > MOST_SKIPPED:
            raise NotIndexedError
        return cls(question, draft, draft.ranked_clause(), rest, count)

    @property
    def words(self) -> list[str]:
        return ordered(self.clause, self.draft.order, self.draft.start, self.count)

    def positions(self, reply: Reply) -> list[int]:
        return reply.positions

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Piped | None:
        steps = [*self.draft.shaping, *self.rest]
        if not reply.total or not _all_known(steps, rows, self.draft.shape):
            return None
        state = Pipeline(steps).run(RowsTable(rows), work, is_whole=False)
        piped = Piped.of(state, self.question.limit)
        if self.rest or self.question.wants_all:
            return piped
        return Piped(piped.rows, self.draft.left_of(reply.total))


def _all_known(steps: Sequence[NamedStep], rows: Sequence[Any], shape: IndexShape) -> bool:
    """Whether some row has each field that the steps name: of others, only all rows tell that there are none."""
    named = {path for _, _, step in steps for path in step.named} - shape.columns.keys()
    return all(any(field_of(row, path) is not MISSING for row in rows) for path in named)
