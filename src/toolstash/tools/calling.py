"""How functions of the user are called, whatever kind they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from toolstash.threads import in_thread


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a user's function: async ones are awaited, sync ones run in a worker thread.

    A generator function, async or not, gives its generator: nothing of it has run yet.
    """
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return function(*args, **kwargs)
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await in_thread(function, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result
