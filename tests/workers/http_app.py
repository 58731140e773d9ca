"""A FastAPI application as a user would write it. A client that leaves cancels its call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tests.workers.tool_set import make_ctx
from toolstash import ToolstashError


def create_app() -> FastAPI:
    """One of these is made in each worker process."""
    ctx = make_ctx(max_connections=4)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await ctx.aclose()
        await ctx.store.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/tools/{name}")
    async def call_tool(name: str, request: Request) -> JSONResponse:
        arguments = await request.json()
        call = asyncio.ensure_future(
            ctx.adispatch_tool_call(name, arguments, session_id=request.headers.get("x-session-id"))
        )
        leaving = asyncio.ensure_future(_left(request))
        await asyncio.wait([call, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not call.done():
            call.cancel()
        outcomes = await asyncio.gather(call, leaving, return_exceptions=True)
        return _response(outcomes[0])

    return app


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(answer: Any) -> JSONResponse:
    if isinstance(answer, ToolstashError):
        return JSONResponse({"error": answer.message, "pid": os.getpid()}, status_code=400)
    if isinstance(answer, asyncio.CancelledError):
        print("a call was cancelled", flush=True)  # noqa: T201
        return JSONResponse({"pid": os.getpid()}, status_code=499)
    if isinstance(answer, BaseException):
        raise answer
    return JSONResponse({"answer": answer, "pid": os.getpid()})
