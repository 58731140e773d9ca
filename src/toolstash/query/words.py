"""Words as search sees them: folded, stemmed, and which signs make a word in which script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

CJK: Final = (
    "\u1100-\u11ff\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Chinese, Japanese and Korean signs, as the inside of a character class: a run of them is matched by its parts."""

WITHOUT_SPACES: Final = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Tibetan, Burmese, Khmer: scripts that put no spaces between words."""

_POINTS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
)
"""Accents, and the points of Hebrew and Arabic: they do not count."""

_INVISIBLE: Final = "\u00ad\u0640\u200b-\u200d\ufe00-\ufe0f\ufeff"


def _marks() -> str:
    """Signs that belong to the letter before them, as the vowels of Indian scripts do."""
    unspaced = re.compile(f"[{WITHOUT_SPACES}{CJK}]")
    signs = (chr(code) for code in range(0x300, 0x3100))
    return "".join(sign for sign in signs if unicodedata.category(sign) in ("Mn", "Mc") and not unspaced.match(sign))


MARKS: Final = _marks()

LETTER: Final = rf"[^\W_{CJK}]"
"""A letter or digit that is part of a word, where no marks can stand."""

MARKED_LETTER: Final = rf"(?:{LETTER}|[{MARKS}])"
"""A letter, digit or mark that is part of a word."""

SEPARATOR: Final = rf'(?:[^\w"\n{MARKS}]|_)'
"""What may stand between two words of one value: values end with a quote, rows with a line break."""

_DROPPED = re.compile(f"[{_POINTS}{_INVISIBLE}]+")
_LONGEST_STEMMED = 40
LONG = 200_000
"""Characters of a text that are worked on in one go."""


def fold(text: str) -> str:
    """The text without case, accents and points: `École` → `ecole`. Compatible forms become one (`ﬁ` → `fi`)."""
    if text.isascii():
        return text.lower()
    return _fold_piece(text) if len(text) <= LONG else "".join(map(_fold_piece, stretches(text)))


def stretches(text: str) -> Iterator[str]:
    """A long text in stretches, cut at spaces, so that no single step holds the interpreter for long."""
    start = 0
    while start < len(text):
        end = text.find(" ", start + LONG)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end


def _fold_piece(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", _DROPPED.sub("", decomposed))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a folded word by the English Snowball algorithm: `running` → `run`."""
    return _stemmer().stemWord(word) if len(word) <= _LONGEST_STEMMED else word


def shared_start(stemmed: str) -> str:
    """What every word with this stem begins with. Stemming changes the last letter or two (`dying` → `die`)."""
    kept = -2 if stemmed.endswith("ie") or stemmed == "sky" else -1
    return stemmed[:kept] or stemmed[:1]
