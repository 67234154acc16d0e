"""`mailwright mcp`: serve an AI agent over standard input and output."""

import asyncio
import sys
from typing import Annotated

import typer

from mailwright.access.roles import Scope, check_scopes
from mailwright.cli.opening import settings_for_command
from mailwright.cli.options import Tenant, command
from mailwright.outbox import tenants

app = command()


@app.command()
def mcp(
    tenant: Tenant = tenants.DEFAULT,
    name: Annotated[str, typer.Option(help="The agent's name in the audit log.")] = "mcp",
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What the agent may do; can be repeated.", show_default="propose")
    ] = None,
) -> None:
    """Serve an AI agent over standard input and output with the Model Context Protocol (MCP).

    The agent can search and explain messages, read forecasts and reports, and create drafts, which a person starts in
    the dashboard. To let it send, add `--scope send` (single emails) or `--scope manage` (campaigns).

    `mailwright serve` offers the same tools over HTTP at `/mcp`, with an API key.
    """
    from mailwright.app.agents import serve_agent  # noqa: PLC0415 - `--help` does not need it

    if sys.stdin.isatty():
        typer.echo("Waiting for an MCP client on standard input. Press Ctrl-C to stop.", err=True)
    scopes = frozenset(scope or [Scope.PROPOSE])
    check_scopes(scopes, is_platform=False)
    asyncio.run(serve_agent(settings_for_command(), tenant=tenant, name=name, scopes=scopes))
