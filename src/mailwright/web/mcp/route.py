"""`/mcp`: the MCP server over HTTP. Agents authenticate with an API key; a dashboard session is not accepted."""

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mailwright.web.state import engine_of

router = APIRouter(include_in_schema=False)


class _McpResponse(Response):
    """Passes the request on to the MCP server."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mailwright.web.mcp.server import serve_request  # noqa: PLC0415 - most installations do not use it

        await serve_request(scope["app"], scope["mailwright.agent"], scope, receive, send)


@router.post("/mcp")
async def serve(request: Request) -> Response:
    request.scope["mailwright.agent"] = await engine_of(request).keys.authenticate(request.headers.get("authorization"))
    return _McpResponse()
