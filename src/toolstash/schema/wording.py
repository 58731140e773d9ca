"""What parameters of common names mean, for functions whose docstring does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STANDARD_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "workspace_id": "Id of the workspace, as its notice gives it.",
    "page": "Number of the page to read.",
    "size": "How many entries a page holds.",
    "page_size": "How many entries a page holds.",
    "query": "What to look for.",
    "field": "Name of the field.",
    "fields": "Names of the fields.",
    "offset": "How far from the beginning to start.",
    "index": "Position of the entry.",
    "indices": "Positions of the entries.",
    "start": "Where to start.",
    "end": "Where to stop.",
    "key": "The key to look up.",
    "value": "The value to compare with or to set.",
    "limit": "Most entries to return.",
    "max_results": "Most results to return.",
    "operator": "How to compare.",
    "descending": "Whether the largest come first.",
    "case_sensitive": "Whether upper and lower case differ.",
    "steps": "The steps, in the order in which they run.",
    "save_as": "Name under which to keep the result.",
    "group_by": "The field or fields to group by.",
    "metrics": "Names of the metrics, and how each is computed.",
    "expected_version": "The version that it must have.",
    "item": "The entry.",
    "items": "The entries.",
}
"""Parameter name → description; in words that hold whether a count starts at 0 or at 1."""
