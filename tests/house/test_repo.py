"""What a newcomer finds: two commands, documents that tell the truth, tests that can fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import toolstash
from tests.house import repository
from tests.house.sources import ROOT, Source, python_under, repository_paths, repository_texts
from toolstash import toolsets

TESTS = python_under("tests")
DOCUMENTS = [text for text in repository_texts() if text.path.endswith(".md")]
MAY_SLEEP = {
    "tests/wait.py": "the one place where tests poll",
    "tests/proxy.py": "plays a slow network",
}
TAKES = {
    "Ctx": toolstash.Ctx,
    "RedisStore": toolstash.RedisStore,
    "MemoryStore": toolstash.MemoryStore,
    "ToolSet": toolstash.ToolSet,
    "producer": toolstash.Ctx.producer,
    "toolset": toolstash.Ctx.toolset,
    "tool": toolstash.ToolSet.tool,
    "adispatch_tool_call": toolstash.Ctx.adispatch_tool_call,
    "dispatch_tool_call": toolstash.Ctx.dispatch_tool_call,
    "store_workspace": toolstash.Ctx.store_workspace,
    "get_tools": toolstash.Ctx.get_tools,
    **{name: getattr(toolsets, name) for name in toolsets.__all__},
}


def document(path: str) -> Source:
    return next(text for text in repository_texts() if text.path == path)


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_readme_names_a_command_that_exists(command: str) -> None:
    assert f"make {command}" in document("README.md").text
    assert subprocess.run(["make", "--dry-run", command], cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_ci_runs_what_a_person_runs_and_misses_no_server() -> None:
    lines = document(".ci/run").text.splitlines()
    assert "make test" in lines
    assert "export TOOLSTASH_REQUIRE_SERVERS=1" in lines
    assert "set -euo pipefail" in lines


def test_no_path_of_one_machine() -> None:
    assert repository.machine_path_faults(repository_texts()) == []


def test_names_say_something() -> None:
    assert repository.name_faults(repository_paths()) == []


def test_each_example_is_run_by_a_test() -> None:
    tests = [test for test in TESTS if not test.path.startswith("tests/house/")]
    assert repository.untested_examples(repository_paths(), tests) == []


def test_no_test_sleeps() -> None:
    assert repository.sleep_faults([test for test in TESTS if test.path not in MAY_SLEEP]) == []


def test_each_test_asserts() -> None:
    assert repository.silent_tests(TESTS) == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.path)
def test_the_code_in_documents_is_python_and_what_it_imports_and_passes_is_there(page: Source) -> None:
    assert repository.block_faults(page) == []
    faults = [repository.parameter_faults(code, TAKES) for _, code in repository.python_blocks(page)]
    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.path)
def test_links_between_documents_lead_somewhere(page: Source) -> None:
    assert repository.link_faults(page, ROOT) == []


def made(text: str, path: str = "tests/test_made.py") -> list[Source]:
    return [Source(path, text)]


def test_a_path_of_one_machine_is_found() -> None:
    bad = [
        "/".join(["", *parts])
        for parts in (["work", "main"], ["root", "x"], ["home", "ann", "x"], ["Users", "Ann", ""])
    ]
    assert len(repository.machine_path_faults(made("\n".join(f"see {path}" for path in bad)))) == len(bad)
    fine = "https://example.org/{0}/x  docs/{1}/x  ~/{0}/  /var/lib/x  `/workspace/`".format("work", "root")
    assert repository.machine_path_faults(made(fine)) == []


def test_an_empty_name_is_found() -> None:
    paths = ["src/toolstash/utils.py", "tests/helpers/a.py", "src/toolstash/common/__init__.py", "docs/commonplace.md"]
    assert repository.name_faults(paths) == paths[:3]


def test_an_example_without_a_test_is_found() -> None:
    paths = ["examples/01_a.py", "examples/02_b.py", "examples/data.csv"]
    assert repository.untested_examples(paths, made("run('01_a.py')")) == ["examples/02_b.py"]


@pytest.mark.parametrize("line", ["time.sleep(1)", "await asyncio.sleep(0.01)", "await anyio.sleep(n)", "sleep(2)"])
def test_a_sleep_is_found(line: str) -> None:
    assert len(repository.sleep_faults(made(f"async def test_a():\n    {line}\n"))) == 1
    assert repository.sleep_faults(made("async def test_a():\n    await asyncio.sleep(0)\n")) == []


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("run()", True),
        ("assert True", True),
        ("assert 'always'", True),
        ("quiet()", True),
        ("assert run() == 1", False),
        ("with pytest.raises(ValueError): run()", False),
        ("await until(run)", False),
        ("expect_rows(3)", False),
        ("loud()", False),
        ("louder()", False),
    ],
)
def test_a_test_that_cannot_fail_is_found(body: str, silent: bool) -> None:
    used = "def loud():\n    assert run()\ndef louder():\n    loud()\ndef quiet():\n    run()\n"
    text = f"{used}async def test_it():\n    {body}\nclass TestA:\n    def test_inside(self):\n        {body}\n"
    assert len(repository.silent_tests(made(text))) == (2 if silent else 0)


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("x = = 1", 1),
        ("from toolstash import Nothing, Ctx", 1),
        ("from toolstash.nowhere import x", 1),
        ("from toolstash import Ctx\nasync with Ctx() as ctx:\n    await ctx.ping()", 0),
        ("import somebody_elses", 0),
    ],
)
def test_a_block_that_is_wrong_is_found(code: str, faults: int) -> None:
    page = Source("docs/a.md", f"Text\n\n```python\n{code}\n```\n\n```text\nx = = 1\n```\n")
    assert len(repository.block_faults(page)) == faults


def test_an_argument_that_is_not_there_is_found() -> None:
    code = "Ctx(stores=1)\n@ctx.producer(workspace_type='a', tool_sets=[])\ndef f(): ...\npaginator(x, max_page_size=5)"
    assert repository.parameter_faults(code, TAKES) == ["Ctx() takes no stores", "producer() takes no tool_sets"]


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("x")
    page = Source(
        "a.md",
        "[a](there.md#part) [b](gone.md) [c](https://example.org/gone.md) [d](#part) `[e](f)`\n```\n[g](h)\n```\n",
    )
    assert repository.link_faults(page, tmp_path) == ["a.md links to gone.md"]
