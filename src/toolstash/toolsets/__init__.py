"""The built-in tool sets, one factory each.

A factory called without a name takes it from the producer's workspace type: `toolsets=[paginator(ctx)]`.
"""

from __future__ import annotations

from toolstash.toolsets.kv_reader import kv_reader
from toolstash.toolsets.paginator import paginator
from toolstash.toolsets.text_content import text_content

__all__ = ["kv_reader", "paginator", "text_content"]
