"""`import toolstash` shows what is there, documented, and costs next to nothing."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import toolstash
import toolstash.toolsets
from tests.house.sources import ROOT

PAGES = [toolstash, toolstash.toolsets]


def export_faults(page: ModuleType) -> list[str]:
    """Where `__all__` differs from what a type checker sees, from what can be fetched, or from its own order."""
    listed: list[str] = page.__all__
    faults = [f"{name} is listed but cannot be fetched" for name in listed if not hasattr(page, name)]
    seen = imported_names(inspect.getsource(page))
    faults += [f"{name} is listed but a type checker does not see it" for name in sorted(set(listed) - seen)]
    faults += [f"{name} is imported but not listed" for name in sorted(seen - set(listed))]
    faults += [f"dir() shows {name}, or hides it" for name in sorted({*shown(page)} ^ {*listed})]
    return faults if listed == sorted(set(listed)) else [*faults, "__all__ is not sorted, or names something twice"]


def imported_names(text: str) -> set[str]:
    """Public names that a page imports from inside the package."""
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolstash")
        for alias in node.names
    }


def shown(page: ModuleType) -> set[str]:
    """Public names of a page, without its submodules and what it imports from elsewhere."""
    return {
        name
        for name in dir(page)
        if not name.startswith("_") and not inspect.ismodule(value := getattr(page, name)) and belongs(value)
    }


def belongs(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith(("toolstash", "made_up"))


def undocumented(name: str, value: Any) -> Iterator[str]:
    """A public name without a docstring of its own, and its public methods without one."""
    if not written_docstring(value):
        yield name
    if not inspect.isclass(value):
        return
    for attribute, member in vars(value).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        inherited = any(getattr(getattr(base, attribute, None), "__doc__", None) for base in value.__mro__[1:])
        if not attribute.startswith("_") and inspect.isfunction(function) and not inherited and not function.__doc__:
            yield f"{name}.{attribute}"


def written_docstring(value: Any) -> bool:
    """Whether somebody wrote one: neither inherited nor the signature that `dataclass` puts there."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)
    return bool(text) and not text.startswith(f"{value.__name__}(")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_all_is_what_is_exported(page: ModuleType) -> None:
    assert export_faults(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_every_public_name_is_documented(page: ModuleType) -> None:
    assert page.__doc__
    assert [fault for name in page.__all__ for fault in undocumented(name, getattr(page, name))] == []


def test_every_error_is_on_the_front_page() -> None:
    errors = importlib.import_module("toolstash.errors")
    family = {name for name, value in vars(errors).items() if inspect.isclass(value) and belongs(value)}
    assert family <= set(toolstash.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = toolstash.Nothing


def test_forge_is_ctx() -> None:
    assert toolstash.Forge is toolstash.Ctx


@pytest.mark.parametrize("forge", ["Forge", "Ctx"])
def test_either_name_may_be_fetched_first(forge: str) -> None:
    code = f"import toolstash; assert toolstash.{forge} is toolstash.Ctx; assert toolstash.Forge is toolstash.Ctx"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def newly_loaded(statement: str) -> set[str]:
    """Top-level packages that a statement loads in a fresh interpreter, without toolstash and the standard library."""
    code = f"import sys; before = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    tops = {name.split(".")[0] for name in ran.stdout.split()}
    return {name for name in tops if name != "toolstash" and name not in sys.stdlib_module_names}


def test_the_import_loads_no_dependency() -> None:
    assert newly_loaded("import toolstash") == set()


def test_the_memory_store_loads_no_redis() -> None:
    loaded = newly_loaded("from toolstash import Ctx\nfrom toolstash.toolsets import paginator\nCtx('memory:')")
    assert "anyio" in loaded
    assert "redis" not in loaded


def test_a_dependency_that_is_loaded_is_found() -> None:
    assert newly_loaded("import orjson, json, toolstash") == {"orjson"}


def made_up_page(text: str, **names: Any) -> ModuleType:
    page = ModuleType("made_up")
    page.__dict__.update(names)
    page.__dict__["__source__"] = text
    return page


def test_a_wrong_list_of_exports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Extra:
        pass

    Extra.__module__ = "made_up"
    page = made_up_page("from toolstash.errors import A, C as D", Extra=Extra, A=1)
    page.__dict__["__all__"] = ["B", "A"]
    monkeypatch.setattr(inspect, "getsource", lambda module: module.__source__)
    found = " | ".join(export_faults(page))
    for fault in (
        "B is listed but cannot",
        "B is listed but a type",
        "D is imported but not",
        "dir() shows Extra",
        "sort",
    ):
        assert fault in found


def test_a_missing_docstring_is_found() -> None:
    class Bare:
        def method(self) -> None: ...

        @property
        def value(self) -> int:
            return 1

        @classmethod
        def make(cls) -> None: ...

        def _private(self) -> None: ...

    @dataclass
    class Record:
        number: int

    class Heir(ValueError):
        def __init__(self) -> None: ...

    class Written:
        """Says what it is."""

        def method(self) -> None:
            """Says what it does."""

    class WrittenHeir(Written):
        """Says what it is."""

        def method(self) -> None: ...

    assert [*undocumented("Bare", Bare)] == ["Bare", "Bare.method", "Bare.value", "Bare.make"]
    assert [*undocumented("Heir", Heir), *undocumented("Record", Record)] == ["Heir", "Record"]
    assert [*undocumented("Written", Written), *undocumented("WrittenHeir", WrittenHeir)] == []
    assert [*undocumented("f", lambda: None)] == ["f"]
