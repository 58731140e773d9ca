"""Rows of about 500 bytes: nested author, tags, two text fields, numbers. The same in every run."""

from __future__ import annotations

import random
from typing import Any

TEXT = """graph neural transformer attention retrieval memory agent planning reward policy vision language token
sparse dense kernel gradient sampling latent diffusion alignment benchmark dataset scaling protein climate"""
WORDS = TEXT.split()


def make_rows(count: int) -> list[dict[str, Any]]:
    """`count` rows, made with a fixed seed."""
    pick = random.Random(42)
    return [_row(number, pick) for number in range(count)]


def _row(number: int, pick: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "title": " ".join(pick.choices(WORDS, k=8)),
        "abstract": " ".join(pick.choices(WORDS, k=32)),
        "year": pick.randint(1990, 2026),
        "citations": pick.randint(0, 5_000),
        "score": round(pick.random(), 6),
        "author": {"name": pick.choice(WORDS).title(), "country": pick.choice(["BR", "DE", "JP", "US"])},
        "tags": pick.sample(WORDS, k=3),
    }
