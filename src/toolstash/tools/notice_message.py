"""The sentences of a notice: what is stored, how much of it the preview shows, and how to go on."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from toolstash.contracts import WorkspaceMeta
from toolstash.tools.bound import ELLIPSIS
from toolstash.tools.preview import shrink

_NOTE_CHARS = 300
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
_ADVICE = "Search or page through the rest with the tools before concluding that something is not there."


def message_of(
    meta: WorkspaceMeta, sample: Any, preview: Any, *, has_tools: bool, non_finite: int = 0, note: str = ""
) -> str:
    """Says what the workspace holds. `preview` is what is shown of `sample`; None where nothing of it is."""
    what, is_whole = _what(meta, sample, preview)
    sentences = [what]
    if has_tools and not is_whole:
        sentences.append(_ADVICE)
    if non_finite:
        sentences.append(f"{_counted(non_finite, 'NaN or infinite number')} stored as null.")
    if meta.ttl is not None:
        sentences.append(f"Kept for {_duration(meta.ttl)}.")
    if note:
        sentences.append(str(shrink(note, _NOTE_CHARS)))
    return " ".join(sentences)


def _what(meta: WorkspaceMeta, sample: Any, preview: Any) -> tuple[str, bool]:
    """What is stored, and whether the preview shows all of it."""
    if meta.data_shape == "list":
        return _rows(meta.item_count, cast(list[Any], sample), cast(list[Any], preview or []))
    if meta.data_shape == "dict":
        return _keys(meta.item_count, sample, cast(dict[str, Any], preview or {}))
    if isinstance(sample, str):
        return _text(meta.chars, sample, preview)
    if sample is None:
        return "No rows: the tool returned nothing (null).", True
    if preview is None:
        return f"One value is stored, {_counted(meta.chars, 'character')} long. No preview fits here.", False
    return "One value is stored; the preview shows it.", True


def _rows(count: int, sample: list[Any], shown: list[Any]) -> tuple[str, bool]:
    if not count:
        return "No rows: the tool returned an empty list, [].", True
    stored = f"{_counted(count, 'row')} {'is' if count == 1 else 'are'} stored"
    if not shown:
        return f"{stored}, not shown. No preview fits here.", False
    is_cut = any(part is not row for part, row in zip(shown, sample, strict=False))
    if len(shown) == count and not is_cut:
        return f"{stored}; the preview shows {'it' if count == 1 else 'all of them'}.", True
    places = "row 0" if len(shown) == 1 else f"rows 0-{len(shown) - 1}"
    cut = ", long values cut" if is_cut else ""
    return f"{stored}, not shown in full. The preview shows {places} of {count:,}{cut}.", False


def _keys(count: int, sample: dict[str, Any], shown: dict[str, Any]) -> tuple[str, bool]:
    if not count:
        return "No rows: the tool returned an empty object, {}.", True
    stored = f"An object with {_counted(count, 'key')} is stored"
    if not shown:
        return f"{stored}, not shown. No preview fits here.", False
    if shown is sample:
        return f"{stored}; the preview shows all of it.", True
    has_count = str(shown.get(ELLIPSIS, "")).endswith(" more")
    first = len(shown) - 1 if has_count else len(shown)
    is_cut = any(shown.get(name) is not value for name, value in islice(sample.items(), first))
    cut = ", long values cut" if is_cut else ""
    return f"{stored}, not shown in full. The preview shows {first} of {count:,} keys{cut}.", False


def _text(chars: int, sample: str, shown: Any) -> tuple[str, bool]:
    if not sample:
        return "No rows: the tool returned an empty text.", True
    stored = f"A text of {_counted(chars, 'character')} is stored"
    is_whole = shown is sample
    if not sample.strip():
        return f"{stored}; {'it' if len(sample) == chars else 'its start'} holds only white space.", is_whole
    if is_whole:
        return f"{stored}; the preview shows all of it.", True
    if shown is None:
        return f"{stored}, not shown. No preview fits here.", False
    return f"{stored}, not shown in full. The preview shows its first {len(shown) - 1:,} characters.", False


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            number = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{number} {unit}{'' if number == '1' else 's'}"
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"
