"""Fixtures that every room uses."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from toolstash import Ctx, MemoryStore


@pytest.fixture
async def ctx() -> AsyncIterator[Ctx]:
    """A Ctx whose data is in this process."""
    async with Ctx(MemoryStore()) as made:
        yield made
