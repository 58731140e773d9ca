"""What plans are made of: the words of an FT.AGGREGATE, and its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolstash.query.work import Work

EVERYTHING = "*"
IN_ROW_ORDER = (("n", False),)
RANKED = (("__score", True), *IN_ROW_ORDER)
"""Best first; rows of equal score keep their order."""

Order = Sequence[tuple[str, bool]]
"""Fields of documents, the first first, and whether each descends."""

_ENDING = ["DIALECT", "2", "TIMEOUT", "0"]


@dataclass(frozen=True, slots=True)
class Reply:
    """How many rows (or groups) there are, and those that were asked for, as fields."""

    total: int
    rows: Sequence[Mapping[str, str]]

    @property
    def positions(self) -> list[int]:
        """The rows by their numbers."""
        return [int(row["n"]) for row in self.rows]


class Plan(Protocol):
    """A question in the words of the index.

    Attributes:
        words: What follows the index's name.
    """

    @property
    def words(self) -> list[str]: ...

    def positions(self, reply: Reply) -> list[int]:
        """The rows that the answer needs, by number."""
        ...

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Any | None:
        """What Python would have answered, from the rows at these positions; None where Python has to."""
        ...


def ordered(clause: str, order: Order, start: int, count: int) -> list[str]:
    """Rows start to start + count of those that the clause finds, in that order."""
    words = [clause, "VERBATIM"]
    if any(name == "__score" for name, _ in order):
        words += ["ADDSCORES", "SCORER", "BM25STD"]
    words += ["SORTBY", str(2 * len(order))]
    for name, descending in order:
        words += [f"@{name}", "DESC" if descending else "ASC"]
    return [*words, "LIMIT", str(start), str(count), *_ENDING]


def grouped(clause: str, fields: Sequence[str], reducers: Sequence[str], order: Order, count: int) -> list[str]:
    """The first groups in that order, with what the reducers make of each."""
    words = [clause, "VERBATIM", "GROUPBY", str(len(fields)), *(f"@{name}" for name in fields), *reducers]
    for name, descending in order:
        words += ["SORTBY", "2", f"@{name}", "DESC" if descending else "ASC"]
    return [*words, "LIMIT", "0", str(count), *_ENDING]
