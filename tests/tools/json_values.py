"""JSON values for property tests: everything that a store can give back, the nasty parts included."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from toolstash.store.values import join_surrogates

# The default alphabet of st.text() leaves surrogates out; a stored text may have lone ones.
NASTY = '\x00\x1f"\\🚀\ud83d\ude80é…'
ANY_TEXT = st.text(st.characters(codec=None), max_size=60) | st.text(NASTY, max_size=60)
ANY_LONG_TEXT = st.builds(lambda part, times: part * times, ANY_TEXT, st.integers(1, 400))

TEXT = ANY_TEXT.map(join_surrogates)
LONG_TEXT = ANY_LONG_TEXT.map(join_surrogates)
# Without exponents, which the two encoders spell differently (1e-7, 1e-07): the sizes of parts would not add up.
FLOATS = st.integers(-(10**9), 10**9).map(lambda number: number / 64)
NUMBERS = st.integers() | st.integers(-(10**300), 10**300) | FLOATS
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
KEYS = TEXT | st.text("a.\\", max_size=5)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=6)


VALUES: st.SearchStrategy[Any] = st.recursive(SCALARS | LONG_TEXT, _around, max_leaves=25)
WIDE_ROWS = st.builds(
    lambda count, value: {f"column_{number}": value for number in range(count)}, st.integers(0, 600), SCALARS
)
ROWS = st.dictionaries(KEYS, VALUES, max_size=12) | WIDE_ROWS | VALUES
