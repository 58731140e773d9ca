"""A store from a URL."""

from __future__ import annotations

from toolstash.settings import Settings
from toolstash.store.base import BaseStore
from toolstash.store.memory_store import MemoryStore


def store_of(url: str | None, prefix: str | None) -> BaseStore:
    """The store that a URL names; None means `TOOLSTASH_URL`, else a private embedded server.

    Raises:
        ValueError: An unknown URL form or a prefix that cannot be used.
    """
    settings = Settings.from_environment(url=url, prefix=prefix)
    if settings.url == "memory:":
        return MemoryStore()
    from toolstash.store.redis_store import RedisStore  # loads redis, which `memory:` does without

    return RedisStore(settings.url, prefix=prefix)
