"""How much work one question may make, and the sign that nobody waits for its answer any more."""

from __future__ import annotations

from toolstash.errors import InvalidArgumentError

MOST_UNITS = 100_000_000
"""About ten seconds of one core: a unit is one comparison of one row, or the scan of a few letters."""

CHARS_A_UNIT = 40


class Stopped(Exception):
    """The question was cancelled."""


class Work:
    """The work of one question. Steps say beforehand what they will do."""

    def __init__(self, most_units: int = MOST_UNITS) -> None:
        self._left = most_units
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
