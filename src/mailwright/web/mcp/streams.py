"""The MCP server over standard input and output."""

from mcp.server.stdio import stdio_server

from mailwright.access.api_keys import Caller
from mailwright.app.wiring import Engine
from mailwright.web.app import create_app
from mailwright.web.mcp.server import make_server


async def serve_streams(engine: Engine, caller: Caller) -> None:
    """Serve one agent over standard input and output until it closes them."""
    server = make_server(create_app(engine), caller)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
