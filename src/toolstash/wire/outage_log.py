"""What whoever runs the program reads of a store that fails: the model gets the error, the log gets the cause."""

from __future__ import annotations

import logging
import time

from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.wire import causes

QUIET_SECONDS = 60.0

logger = logging.getLogger("toolstash")


class OutageLog:
    """Warns that calls to one store fail, at most once in `QUIET_SECONDS`.

    Args:
        place: Where the store is, without secrets.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._quiet_until = float("-inf")

    def note(self, told: ToolstashError, fault: Exception) -> None:
        """Warns of an error that a caller is about to see, and of what it was made of."""
        now = time.monotonic()
        if isinstance(told, StoreUnavailableError) and now >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            cause = "" if told is fault else f" Cause: {causes.for_the_log(fault)}."
            logger.warning("%s (%s)%s Further failures are not logged for a minute.", told.message, self._place, cause)
