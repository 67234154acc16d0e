"""Serve one AI agent over standard input and output."""

from importlib.util import find_spec

from uvicorn.importer import import_from_string

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.app.wiring import open_engine
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants

# This layer cannot import the web layer above it, so the server is loaded by its import string.
MCP_SERVER = "mailwright.web.mcp.streams:serve_streams"


async def serve_agent(settings: Settings, *, tenant: str, name: str, scopes: frozenset[Scope]) -> None:
    if find_spec("mcp") is None:
        raise ConfigurationInvalid("The MCP server is not installed. Install `mailwright[mcp]`.")
    serve_streams = import_from_string(MCP_SERVER)
    async with open_engine(settings) as engine:
        owner = await tenants.find(engine.database, tenant)
        await serve_streams(engine, Caller(owner.id, owner.name, scopes, key_name=name))
