"""The rules of the house for everything outside `src`: tests, examples, documents, names."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from tests.house.sources import Source

EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "manager", "base_utils"})
ASSERTING = frozenset({"raises", "warns", "fail", "until", "until_sync", "check_schema"})
"""Calls that fail a test by themselves; so do functions whose names begin with assert or expect."""

_MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work|root|farm|home/[a-z]\w*|Users/[A-Za-z]\w*)(/|\b(?=[\s`'\",)]))")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def machine_path_faults(texts: Collection[Source]) -> list[str]:
    """Paths that exist on one machine only."""
    return [
        f"{text.path}:{number} {line.strip()[:80]}"
        for text in texts
        for number, line in enumerate(text.text.splitlines(), 1)
        if _MACHINE_PATH.search(line)
    ]


def name_faults(paths: Collection[str]) -> list[str]:
    """Files and folders whose names say nothing."""
    return [path for path in paths if not EMPTY_NAMES.isdisjoint(PurePosixPath(path).with_suffix("").parts)]


def untested_examples(paths: Collection[str], tests: Collection[Source]) -> list[str]:
    """Example programs that no test names."""
    examples = [path for path in paths if path.startswith("examples/") and path.endswith(".py")]
    return [path for path in examples if not any(PurePosixPath(path).name in test.text for test in tests)]


def sleep_faults(tests: Collection[Source]) -> list[str]:
    """Sleeps in tests; `sleep(0)` only lets others run."""
    return [
        f"{test.path}:{node.lineno} sleeps"
        for test in tests
        for node in ast.walk(ast.parse(test.text))
        if isinstance(node, ast.Call) and _called(node) in {"sleep", "sleep_until"} and not _is_zero(node)
    ]


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_zero(node: ast.Call) -> bool:
    return len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0


def silent_tests(tests: Collection[Source]) -> list[str]:
    """Test functions that could not fail: no assertion in them, nor in a function of the same file that they call."""
    faults: list[str] = []
    for test in tests:
        functions = [
            node for node in ast.walk(ast.parse(test.text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        loud = _loud_names(functions)
        faults += [
            f"{test.path}:{function.lineno} {function.name}"
            for function in functions
            if function.name.startswith("test") and function.name not in loud
        ]
    return faults


def _loud_names(functions: Iterable[ast.FunctionDef | ast.AsyncFunctionDef]) -> set[str]:
    loud: set[str] = set()
    grew = True
    while grew:
        more = {function.name for function in functions if _asserts(function, loud)}
        grew, loud = more != loud, more
    return loud


def _asserts(function: ast.AST, loud: Collection[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            return True
        if isinstance(node, ast.Call):
            name = _called(node)
            if name in ASSERTING or name in loud or name.startswith(("assert", "expect")):
                return True
    return False


def python_blocks(document: Source) -> Iterator[tuple[int, str]]:
    """The Python code of a Markdown document, each block with its line."""
    for match in _FENCE.finditer(document.text):
        if match.group(1) in {"python", "py"}:
            yield document.text[: match.start()].count("\n") + 2, match.group(2)


def block_faults(document: Source) -> list[str]:
    """Blocks that are no Python, and names that they import from toolstash and that are not there."""
    faults: list[str] = []
    for line, code in python_blocks(document):
        try:
            compile(code, document.path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            faults.append(f"{document.path}:{line} {error.msg}")
            continue
        faults += [f"{document.path}:{line} there is no {name}" for name in _missing_names(code)]
    return faults


def _missing_names(code: str) -> list[str]:
    missing: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "toolstash":
            try:
                module = importlib.import_module(node.module or "")
            except ImportError:
                missing.append(str(node.module))
                continue
            missing += [f"{node.module}.{alias.name}" for alias in node.names if not hasattr(module, alias.name)]
    return missing


def parameter_faults(code: str, callables: dict[str, object]) -> list[str]:
    """Keyword arguments in calls of known names (`Ctx(…)`, `.producer(…)`) that those do not take."""
    faults: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call) or _called(node) not in callables:
            continue
        parameters = inspect.signature(callables[_called(node)]).parameters
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            continue
        faults += [
            f"{_called(node)}() takes no {word.arg}"
            for word in node.keywords
            if word.arg and word.arg not in parameters
        ]
    return faults


def link_faults(document: Source, root: Path) -> list[str]:
    """Links to files that are not there."""
    targets = [link.partition("#")[0] for link in _LINK.findall(_CODE.sub("", document.text))]
    folder = (root / document.path).parent
    return [
        f"{document.path} links to {target}"
        for target in targets
        if target and "://" not in target and not (folder / target).exists()
    ]
