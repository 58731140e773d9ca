"""Stores: where workspaces are kept. `BaseStore` says what a store does; `RedisStore` and `MemoryStore` do it."""
