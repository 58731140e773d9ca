"""Finds what annotations mean when they are text, one by one where not all of them can be found."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, get_type_hints


def function_behind(called: Any) -> Any:
    """What is really called: the function of a partial, a decorated one, an object's `__call__`; a class itself."""
    while isinstance(called, functools.partial):
        called = called.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(called, type):
        return called  # pyright: ignore[reportUnknownVariableType]
    function: Any = inspect.unwrap(called)  # pyright: ignore[reportUnknownArgumentType]
    return function if inspect.isroutine(function) else type(function).__call__


def resolved_hints(annotated: Any) -> dict[str, Any]:
    """Name → annotation of a function, method, partial, callable object or class.

    `Annotated` is kept. A name that cannot be found (a class of an enclosing function, say) makes its own
    parameter `Any` and leaves the others as they are.
    """
    source = function_behind(annotated)
    try:
        return get_type_hints(source, localns=_names_around(source), include_extras=True)
    except Exception:
        return _hints_one_by_one(source)


def _names_around(source: Any) -> dict[str, Any] | None:
    """What an annotation may name besides globals: the class itself, or the variables a function closes over."""
    if isinstance(source, type):
        return {source.__name__: source}
    names: tuple[str, ...] = getattr(getattr(source, "__code__", None), "co_freevars", ())
    cells: tuple[Any, ...] = getattr(source, "__closure__", None) or ()
    around = {name: cell.cell_contents for name, cell in zip(names, cells, strict=False) if _is_filled(cell)}
    return around or None


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _hints_one_by_one(source: Any) -> dict[str, Any]:
    owners = reversed(source.__mro__) if isinstance(source, type) else [source]
    hints: dict[str, Any] = {}
    for owner in owners:
        own = inspect.get_annotations(owner) if isinstance(owner, type) else source.__annotations__
        hints |= {name: _one_hint(owner, annotation) for name, annotation in own.items()}
    return hints


def _one_hint(owner: Any, annotation: Any) -> Any:
    def stand_in() -> None: ...

    stand_in.__annotations__ = {"it": annotation}
    module = sys.modules.get(owner.__module__)
    names = getattr(owner, "__globals__", None) or getattr(module, "__dict__", {})
    try:
        return get_type_hints(stand_in, names, _names_around(owner), include_extras=True)["it"]
    except Exception:
        return Any
