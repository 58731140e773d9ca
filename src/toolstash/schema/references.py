"""What a reference inside a JSON Schema leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def referred(root: Mapping[str, Any], reference: str) -> Any:
    """The part of a schema that a reference such as `#/$defs/Row` names; True (anything), where it names none so."""
    found: Any = root
    try:
        for step in filter(None, reference[1:].split("/")):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if hasattr(found, "append") else found[name]
    except (LookupError, ValueError, TypeError):
        return True
    return found
