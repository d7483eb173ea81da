"""The tool loop: a model calls Python functions and MCP servers until it has an answer."""
