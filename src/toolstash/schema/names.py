"""Tool names that every model API takes, and what to do with a name that a model got wrong."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher
from typing import Final

MAX_NAME_CHARS: Final = 40
"""APIs take 64; hosts put prefixes of their own in front."""

_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_-]")
_SEPARATORS: Final = re.compile(r"[\W_]+")
_HASH_CHARS: Final = 8
_MAX_LAST_PART_CHARS: Final = 20
_MAX_WANTED_CHARS: Final = 100
_NEAR_ENOUGH: Final = 0.5
_MIN_PART_CHARS: Final = 3
_START_WEIGHT: Final = 0.3


def tool_name(*parts: str) -> str:
    """The parts joined by "_": at most 40 characters of `A-Z a-z 0-9 _ -`, the same in every process.

    It starts with a letter or "_", as Gemini wants it. Accents are folded, other characters become "_". A name that had
    to be changed or shortened gets 8 hex digits of its original's SHA-256, so that two originals never share a name;
    they stand before the last part where that part is fine, so that the tools of one type keep one prefix.
    """
    head, last = parts[:-1], parts[-1]
    if head and last and _cleaned(last) == last and len(last) <= _MAX_LAST_PART_CHARS:
        return f"{_fitted('_'.join(head), MAX_NAME_CHARS - len(last) - 1)}_{last}"
    return _fitted("_".join(parts), MAX_NAME_CHARS)


def repair_name(wanted: str, known: Iterable[str]) -> str | None:
    """The known name that differs from the wanted one in case and separators only; None if there is not just one."""
    names = list(known)
    if wanted in names:
        return wanted
    if len(wanted) > _MAX_WANTED_CHARS:
        return None
    sought = _folded(wanted)
    matches = {name for name in names if _folded(name) == sought}
    return matches.pop() if len(matches) == 1 and sought else None


def near_names(wanted: str, known: Collection[str], most: int = 5) -> list[str]:
    """Up to `most` known names that look like or are part of the wanted one, the nearest first."""
    sought = _folded(wanted[:_MAX_WANTED_CHARS])
    scored = sorted((-_likeness(sought, _folded(name)), name) for name in set(known))
    return [name for score, name in scored[:most] if -score >= _NEAR_ENOUGH]


def _fitted(original: str, most: int) -> str:
    cleaned = _cleaned(original)
    if cleaned and not (cleaned[0].isalpha() or cleaned[0] == "_"):
        cleaned = f"t_{cleaned.lstrip('-')}"
    if cleaned == original and 0 < len(cleaned) <= most:
        return cleaned
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    kept = cleaned[: most - _HASH_CHARS - 1].rstrip("_-")
    return f"{kept}_{digest}" if kept else f"t_{digest}"


def _cleaned(text: str) -> str:
    without_accents = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return _FORBIDDEN.sub("_", without_accents)


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _likeness(wanted: str, name: str) -> float:
    shorter, longer = sorted((wanted, name), key=len)
    if len(shorter) >= _MIN_PART_CHARS and shorter in longer:
        return 0.9 + 0.1 * len(shorter) / len(longer)
    # Models get the end of a name wrong more often than its beginning.
    same_start = next((at for at, pair in enumerate(zip(wanted, name, strict=False)) if len(set(pair)) > 1), 0)
    likeness = SequenceMatcher(None, wanted, name, autojunk=False).ratio()
    return likeness + _START_WEIGHT * same_start / max(len(longer), 1)
