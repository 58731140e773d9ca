"""Imports go down only, and each thing stays in its room."""

from __future__ import annotations

import pytest

from tests.house import layers
from tests.house.sources import Source, python_under

SRC = python_under("src/toolstash")

READS_ENVIRONMENT = {
    "src/toolstash/settings.py": "the one place that reads settings from the environment",
    "src/toolstash/wire/keeper.py": "hands the environment on, unread, to the server that it starts",
}
LONG: dict[str, str] = {}
"""What may be longer, and why. An entry that is no longer needed fails."""


def test_the_source_is_found() -> None:
    assert {"toolstash", "toolstash.errors", "toolstash.wire", "toolstash.store.base"} <= {file.module for file in SRC}


def test_no_arrow_goes_up_or_sideways() -> None:
    assert layers.arrow_faults(SRC) == []


def test_only_wire_knows_redis_and_pure_rooms_do_no_input_or_output() -> None:
    assert layers.impure_faults(SRC) == []


def test_what_may_be_missing_is_not_imported_on_load() -> None:
    assert layers.foreign_faults(SRC) == []


def test_only_the_settings_read_the_environment() -> None:
    assert layers.environment_faults(SRC, READS_ENVIRONMENT) == []


def test_files_and_functions_stay_short() -> None:
    assert layers.length_faults(SRC, LONG) == []


def made(module: str, text: str) -> list[Source]:
    return [Source(f"src/{module.replace('.', '/')}.py", text)]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("toolstash.wire.keys", "from toolstash.store.base import BaseStore"),
        ("toolstash.wire.keys", "from toolstash import store"),
        ("toolstash.wire.keys", "import toolstash.tools.ctx"),
        ("toolstash.wire.keys", "from toolstash.query.plan import Plan"),
        ("toolstash.query.plan", "from toolstash.wire import keys"),
        ("toolstash.schema.coerce", "from toolstash.shape import rank"),
        ("toolstash.store.base", "from toolstash.schema.infer import item_schema_of"),
        ("toolstash.store.base", "def f():\n    from toolstash.tools.ctx import Ctx"),
        ("toolstash.store.base", "if TYPE_CHECKING:\n    from toolstash.tools.ctx import Ctx"),
        ("toolstash.store.base", "if typing.TYPE_CHECKING:\n    import toolstash.tools"),
        ("toolstash.store.base", "from ..tools import ctx"),
        ("toolstash.store.base", "from .. import tools"),
        ("toolstash.store.base", "import_module('toolstash.tools.ctx')"),
        ("toolstash.store.base", "importlib.import_module(name)"),
        ("toolstash.store.base", "from toolstash import Ctx"),
        ("toolstash.contracts", "from toolstash.errors import ToolstashError"),
        ("toolstash.errors", "from toolstash.wire.keys import label_of"),
        ("toolstash.errors", "from toolstash.blocking import run_blocking"),
        ("toolstash.cli.wrap", "from toolstash.mcp import Offload"),
        ("toolstash.newroom.file", ""),
    ],
)
def test_an_arrow_that_goes_wrong_is_found(module: str, line: str) -> None:
    assert layers.arrow_faults(made(module, line)) != []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("toolstash.wire.keys", "from toolstash.contracts import Address\nfrom toolstash.wire import scripts"),
        ("toolstash.store.base", "from toolstash.wire import keys as layout\nfrom . import codec"),
        ("toolstash.tools.ctx", "from toolstash.schema.infer import a\nfrom toolstash.wire.keys import b"),
        (
            "toolstash.toolsets.paginator",
            "from toolstash.tools.ctx import Ctx\nfrom toolstash.store.base import Reading",
        ),
        ("toolstash.errors", "from toolstash.contracts import Address"),
        ("toolstash.mcp.offload", "from toolstash.toolsets import paginator"),
    ],
)
def test_an_arrow_that_goes_down_is_fine(module: str, line: str) -> None:
    assert layers.arrow_faults(made(module, line)) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("toolstash.store.redis_store", "import redis.asyncio"),
        ("toolstash.tools.ctx", "def f():\n    from redis import Redis"),
        ("toolstash.schema.coerce", "import anyio.to_thread"),
        ("toolstash.query.plan", "async def f():\n    import asyncio"),
        ("toolstash.shape.stages", "from toolstash.blocking import run_blocking"),
    ],
)
def test_what_belongs_elsewhere_is_found(module: str, line: str) -> None:
    assert len(layers.impure_faults(made(module, line))) >= 1
    assert layers.impure_faults(made("toolstash.wire.connection", "import redis, anyio")) == []


def test_an_sdk_on_load_is_found() -> None:
    top = "import openai\n"
    guarded = "try:\n    from langchain_core import tools\nexcept ImportError:\n    tools = None\n"
    inside = "def f():\n    import openai\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import openai\nelse:\n    import anthropic\n"

    def faults(text: str) -> int:
        return len(layers.foreign_faults(made("toolstash.integrations.openai", text)))

    assert [faults(text) for text in (top, guarded, inside, typed)] == [1, 1, 0, 1]


@pytest.mark.parametrize(
    "line", ["os.environ['A']", "os.getenv('A')", "from os import environ", "from os import getenv as g", "os.environb"]
)
def test_a_look_at_the_environment_is_found(line: str) -> None:
    bad = made("toolstash.wire.connection", line)
    assert layers.environment_faults(bad, {}) == ["src/toolstash/wire/connection.py: reads the environment"]
    assert layers.environment_faults(bad, {bad[0].path: "why"}) == []


def test_what_grew_too_long_is_found() -> None:
    function = "def long():\n" + "    x = 1\n" * 60
    bad = made("toolstash.a", function + "\n" * 400)
    path = bad[0].path
    assert layers.length_faults(bad, {}) == [
        f"{path}: is too long (461 lines)",
        f"{path} long: is too long (61 lines)",
    ]
    assert layers.length_faults(bad, {path: "why", f"{path} long": "why"}) == []
    fits = made("toolstash.a", "async def fits():\n" + "    x = 1\n" * 59 + "\n" * 340)
    assert layers.length_faults(fits, {}) == []


def test_an_excuse_that_nobody_needs_is_found() -> None:
    short = made("toolstash.a", "x = 1\n")
    assert layers.length_faults(short, {"src/toolstash/a.py": "was long"}) == [
        "src/toolstash/a.py: is excused without need"
    ]
    assert layers.environment_faults(short, {"src/toolstash/a.py": "read"}) != []
