"""Words as search sees them: folded, stemmed, and which signs make a word in which script."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any, Final

CJK: Final = (
    "\u1100-\u11ff\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Chinese, Japanese and Korean signs, as the inside of a character class: a run of them is matched by its parts."""

WITHOUT_SPACES: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese, Khmer: scripts that put no signs between words."""

LETTER: Final = rf"[^\W_{CJK}]"
"""A letter or digit that is part of a word."""

SEPARATOR: Final = r'(?:[^\w"\n]|_)'
"""What may stand between two words of one value: values end with a quote, rows with a line break."""

_MARKS = re.compile("[\u0300-\u036f]+")
_LONGEST_STEMMED = 40
_IRREGULAR = {"die": "d", "lie": "l", "tie": "t", "sky": "sk"}


def fold(text: str) -> str:
    """The text without case and accents: `École` → `ecole`. Compatible forms become one (`ﬁ` → `fi`)."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", _MARKS.sub("", decomposed))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a folded word by the English Snowball algorithm: `running` → `run`."""
    return _stemmer().stemWord(word) if len(word) <= _LONGEST_STEMMED else word


def shared_start(stemmed: str) -> str:
    """What every word with this stem begins with. Stemming changes at most the last letter, with few exceptions."""
    if stemmed in _IRREGULAR:
        return _IRREGULAR[stemmed]
    return stemmed[:-1] if len(stemmed) > 1 else stemmed
