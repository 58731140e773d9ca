"""Fixtures that every room uses."""

from __future__ import annotations

from collections.abc import AsyncIterator

import hypothesis
import pytest

from tests.servers import NAMES, RealServer, shared_server
from toolstash import Ctx, MemoryStore

hypothesis.settings.register_profile("toolstash", deadline=None)  # no test fails because a machine is slow
hypothesis.settings.load_profile("toolstash")


@pytest.fixture
async def ctx() -> AsyncIterator[Ctx]:
    """A Ctx whose data is in this process."""
    async with Ctx(MemoryStore()) as made:
        yield made


@pytest.fixture(params=NAMES)
def real_server(request: pytest.FixtureRequest) -> RealServer:
    """Each real server in turn: one process each for the whole run, so use a prefix of your own."""
    return shared_server(request.param)
