"""Real MCP servers for the tests: one on the SDK, one that breaks every rule."""
