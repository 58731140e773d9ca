"""How much work one question may make, and the sign that nobody waits for its answer any more."""

from __future__ import annotations

from toolstash.errors import InvalidArgumentError

MOST_UNITS = 100_000_000
"""About ten seconds of one core: a unit is one comparison of one row, or the scan of a few letters."""

CHARS_A_UNIT = 40

MOST_CELLS = 30_000_000
"""What the steps of one question may hold at once besides the stored rows: places, values, eight letters of text."""


class Stopped(Exception):
    """The question was cancelled."""


class Work:
    """The work of one question. Steps say beforehand what they will do."""

    def __init__(self, most_units: int = MOST_UNITS, most_cells: int = MOST_CELLS) -> None:
        self._left = most_units
        self._room = most_cells
        self._is_stopped = False

    def stop(self) -> None:
        """Makes the next step raise; may be called from any thread."""
        self._is_stopped = True

    def spend(self, units: int) -> None:
        """Counts what is about to be done.

        Raises:
            Stopped: Nobody waits for the answer.
            InvalidArgumentError: It would be more than one question may do.
        """
        if self._is_stopped:
            raise Stopped
        self._left -= units
        if self._left < 0:
            raise InvalidArgumentError(
                "The question takes too much work for the rows that there are.",
                suggested_action="Ask in smaller steps: narrow the rows first, with fewer conditions, fields or words.",
            )

    def hold(self, cells: int) -> None:
        """Counts what is about to be kept until the answer is there.

        Raises:
            InvalidArgumentError: It would be more than one question may keep.
        """
        self._room -= cells
        if self._room < 0:
            raise InvalidArgumentError(
                "The question takes too much memory for the rows that there are.",
                suggested_action="Filter, select or limit the rows in a step before it.",
            )
