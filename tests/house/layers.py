"""The rules of the house for `src`: who may import whom, what stays out of where, and how long things get."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tests.house.sources import Source

PACKAGE = "toolstash"

BELOW: dict[str, frozenset[str]] = {
    "asking": frozenset(),
    "contracts": frozenset({"asking"}),
    "errors": frozenset(),
    "fieldpath": frozenset(),
    "settings": frozenset(),
    "blocking": frozenset(),
    "threads": frozenset(),
    "tracing": frozenset(),
    "schema": frozenset({"ground"}),
    "query": frozenset({"ground"}),
    "shape": frozenset({"ground"}),
    "wire": frozenset({"ground", "blocking", "threads", "tracing"}),
    "store": frozenset({"query", "wire"}),
    "tools": frozenset({"schema", "shape", "store"}),
    "toolsets": frozenset({"tools"}),
    "integrations": frozenset({"toolsets"}),
    "mcp": frozenset({"toolsets"}),
    "cli": frozenset({"toolsets"}),
    "testing": frozenset({"toolsets"}),
}
"""The rooms directly below each room; what lies below those may be imported as well."""

GROUND = frozenset({"asking", "contracts", "errors", "fieldpath", "settings"})
LOWEST = frozenset({"asking", "contracts"})
"""Of the ground, the rooms that import none of the others unless the plan says so."""
PURE = frozenset({"schema", "query", "shape"})
INPUT_OUTPUT = frozenset({"redis", "hiredis", "anyio", "asyncio", "toolstash.blocking", "toolstash.threads"})
RUNTIME = frozenset({"anyio", "docstring_parser", "hiredis", "msgspec", "orjson", "redis", "toolstash"})
"""What a module may import at its top besides the standard library: the dependencies that are always there."""

MOST_LINES = 400
MOST_FUNCTION_LINES = 60


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module name and where it stands."""

    target: str
    line: int
    on_load: bool


def imports_of(source: Source) -> list[Import]:
    """Every import in a file: inside functions, under TYPE_CHECKING, relative, and `import_module("…")`."""
    tree = ast.parse(source.text, source.path)
    return [*_imports_in(tree, source, on_load=True)]


def _imports_in(node: ast.AST, source: Source, *, on_load: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        loaded = on_load and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for statement in child.body:
                yield from _imports_in(ast.Module([statement], []), source, on_load=False)
            for statement in child.orelse:
                yield from _imports_in(ast.Module([statement], []), source, on_load=loaded)
            continue
        for target in _targets(child, source):
            yield Import(target, getattr(child, "lineno", 0), loaded)
        yield from _imports_in(child, source, on_load=loaded)


def _targets(node: ast.AST, source: Source) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node, source)
        return [base, *(f"{base}.{alias.name}" for alias in node.names)] if base.startswith(PACKAGE) else [base]
    if isinstance(node, ast.Call) and _last_name(node.func) in {"import_module", "__import__"} and node.args:
        name = node.args[0]
        return [str(name.value)] if isinstance(name, ast.Constant) else ["<computed>"]
    return []


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    kept = len(package) - node.level + (1 if source.path.endswith("__init__.py") else 0)
    return ".".join([*package[:kept], *filter(None, [node.module])])


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def room_of(module: str) -> str | None:
    """The room of a module of the package: `wire` for `toolstash.wire.keys`. None for the front page and others."""
    parts = module.split(".")
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else None


def reach(room: str) -> frozenset[str]:
    """Every room below a room. Any room may import the ground."""
    found: set[str] = set()
    waiting = list(BELOW[room])
    while waiting:
        below = waiting.pop()
        found |= GROUND if below == "ground" else {below}
        waiting += BELOW.get(below, ())
    return frozenset(found)


def arrow_faults(sources: Collection[Source]) -> list[str]:
    """Imports that go up or sideways, type-only ones included, and rooms that the plan does not know."""
    faults: list[str] = []
    for source in sources:
        room = room_of(source.module)
        if room is None:
            continue
        if room not in BELOW:
            faults.append(f"{source.path}: the room '{room}' is not in the plan")
            continue
        allowed = reach(room) | ({room} if room not in GROUND else set() if room in LOWEST else GROUND)
        for found in imports_of(source):
            target = room_of(found.target)
            if found.target == PACKAGE or found.target == "<computed>":
                faults.append(f"{source.path}:{found.line} imports {found.target}: name the module it needs")
            elif target is not None and target not in allowed:
                faults.append(f"{source.path}:{found.line} {room} imports {found.target}")
    return list(dict.fromkeys(faults))


def impure_faults(sources: Collection[Source]) -> list[str]:
    """Imports of redis outside `wire`, and of anything that does input or output inside a pure room."""
    faults: list[str] = []
    for source in sources:
        room = room_of(source.module)
        for found in imports_of(source):
            top = found.target.split(".")[0]
            if top == "redis" and room != "wire":
                faults.append(f"{source.path}:{found.line} imports redis")
            elif room in PURE and not INPUT_OUTPUT.isdisjoint({top, found.target}):
                faults.append(f"{source.path}:{found.line} imports {found.target} in a pure room")
    return faults


def foreign_faults(sources: Collection[Source]) -> list[str]:
    """Imports on load of what is not always installed: SDKs and extras belong inside the functions that use them."""
    known = RUNTIME | sys.stdlib_module_names
    return [
        f"{source.path}:{found.line} imports {found.target} at module level"
        for source in sources
        for found in imports_of(source)
        if found.on_load and found.target != "<computed>" and found.target.split(".")[0] not in known
    ]


def environment_faults(sources: Collection[Source], excused: Mapping[str, str]) -> list[str]:
    """Files that touch the environment; `excused` maps paths to reasons, and an excuse without need is a fault."""
    readers = {source.path for source in sources if _reads_environment(ast.parse(source.text))}
    return _against(readers, excused, "reads the environment")


def _reads_environment(tree: ast.AST) -> bool:
    names = {"environ", "environb", "getenv", "getenvb"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name in names for alias in node.names):
            return True
    return False


def length_faults(sources: Collection[Source], excused: Mapping[str, str]) -> list[str]:
    """Files and functions above their bounds. A function is named `path name`."""
    found: dict[str, int] = {}
    for source in sources:
        lines = len(source.text.splitlines())
        if lines > MOST_LINES:
            found[source.path] = lines
        for node in ast.walk(ast.parse(source.text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_FUNCTION_LINES:
                    found[f"{source.path} {node.name}"] = length
    faults = _against(found, excused, "is too long")
    lengths = {f"{name}: is too long": f" ({lines} lines)" for name, lines in found.items()}
    return [fault + lengths.get(fault, "") for fault in faults]


def _against(found: Collection[str], excused: Mapping[str, str], what: str) -> list[str]:
    faults = [f"{name}: {what}" for name in sorted(set(found) - set(excused))]
    return faults + [f"{name}: is excused without need" for name in sorted(set(excused) - set(found))]
