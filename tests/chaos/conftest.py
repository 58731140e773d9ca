"""Fixtures of the chaos room."""

from __future__ import annotations

import secrets

import pytest


@pytest.fixture
def prefix() -> str:
    """A name space of the test's own."""
    return f"t{secrets.token_hex(5)}"
