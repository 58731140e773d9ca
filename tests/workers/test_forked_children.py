"""A child that is forked and ends, in whatever way, leaves its parent's connections as they were."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers import shared_server

PROGRAM = """
import gc, os, sys, time
from toolstash import Ctx

url, ending = sys.argv[1:]
ctx = Ctx(url, default_ttl=60, prefix=f"fork{os.getpid()}")
ctx.blocking.store_workspace([1], workspace_type="n")
for _ in range(3):
    if os.fork() == 0:
        if ending == "use":
            assert len(ctx.blocking.list_workspaces()) >= 1
        elif ending == "aclose":
            ctx.blocking.aclose()
        elif ending == "drop":
            del ctx
            gc.collect()
            os._exit(0)
        sys.exit(0)
    assert os.wait()[1] == 0
    started = time.monotonic()
    ctx.blocking.store_workspace([1], workspace_type="n")
    assert time.monotonic() - started < 2, "the parent's connection was disturbed"
print(len(ctx.blocking.list_workspaces()))
ctx.blocking.aclose()
"""


@pytest.mark.parametrize("ending", ["exit", "use", "aclose", "drop"])
@pytest.mark.parametrize("name", ["valkey", "unix"])
def test_a_parent_goes_on(name: str, ending: str) -> None:
    server = shared_server("valkey")
    url = server.unix_url if name == "unix" else server.url
    ran = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM, url, ending], capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout.strip(), ran.stderr) == ("4", "")
