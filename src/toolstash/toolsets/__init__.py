"""The built-in tool sets, one factory each.

A factory called without a name takes it from the producer's workspace type: `toolsets=[paginator(ctx)]`.
"""

from __future__ import annotations

from toolstash.toolsets.filter_set import filter_set
from toolstash.toolsets.kv_reader import kv_reader
from toolstash.toolsets.paginator import paginator
from toolstash.toolsets.pipeline import pipeline
from toolstash.toolsets.text_content import text_content
from toolstash.toolsets.text_search import text_search

__all__ = ["filter_set", "kv_reader", "paginator", "pipeline", "text_content", "text_search"]
