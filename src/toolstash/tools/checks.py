"""Whether a workspace is of the type and shape that a tool or consumer reads."""

from __future__ import annotations

from collections.abc import Callable

from toolstash.contracts import DataShape, WorkspaceMeta
from toolstash.errors import WorkspaceShapeMismatchError, WorkspaceTypeMismatchError


def check_type(meta: WorkspaceMeta, expected: str | None, reader: str) -> None:
    """Raises WorkspaceTypeMismatchError for another type; None expects nothing. `reader` is what reads it."""
    if expected is not None and meta.workspace_type != expected:
        raise WorkspaceTypeMismatchError(
            f"Workspace '{meta.workspace_id:.150}' is of type '{meta.workspace_type:.60}'; "
            f"this {reader} reads '{expected:.60}'.",
            workspace_id=meta.workspace_id[:150],
            expected_type=expected,
            actual_type=meta.workspace_type,
        )


def check_shape(meta: WorkspaceMeta, expected: DataShape | None, suggested_action: Callable[[], str]) -> None:
    """Raises WorkspaceShapeMismatchError for another shape; None expects nothing."""
    if expected is not None and meta.data_shape != expected:
        raise WorkspaceShapeMismatchError(
            f"This tool reads {expected} data, but the workspace holds {meta.data_shape} data.",
            workspace_id=meta.workspace_id[:150],
            expected_shape=expected,
            actual_shape=meta.data_shape,
            suggested_action=suggested_action(),
        )
