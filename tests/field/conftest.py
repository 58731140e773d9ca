"""Field cases run on every back end."""

from __future__ import annotations

from tests.contract.conftest import store

__all__ = ["store"]
