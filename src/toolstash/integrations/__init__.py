"""Adapters for model APIs and agent frameworks, each imported from its own module. None imports an SDK on load.

openai        Chat Completions and Responses, also streamed: needs no SDK
anthropic     Messages: needs no SDK
langchain     needs langchain-core
pydantic_ai   needs pydantic-ai
"""
