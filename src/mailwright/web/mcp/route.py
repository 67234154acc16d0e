"""`/mcp`: the MCP server over HTTP. Agents authenticate with an API key; a dashboard session is not accepted."""

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mailwright.domain.errors import NotFound
from mailwright.web.state import engine_of

router = APIRouter(include_in_schema=False)


class _McpResponse(Response):
    """Passes the request on to the MCP server."""

    def __init__(self, answer: ASGIApp) -> None:
        super().__init__()
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


@router.post("/mcp")
async def serve(request: Request) -> Response:
    caller = await engine_of(request).keys.authenticate(request.headers.get("authorization"))
    caller.require_tenant()
    try:
        from mailwright.web.mcp.server import serve_request  # noqa: PLC0415 - an extra that most do not use
    except ModuleNotFoundError as error:
        raise NotFound("The MCP server is not installed. Install `mailwright[mcp]`.") from error
    return _McpResponse(partial(serve_request, request.app, caller))
