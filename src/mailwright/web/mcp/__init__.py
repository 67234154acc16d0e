"""The MCP server: AI agents call a selection of API routes as tools, with the scopes of an API key."""
