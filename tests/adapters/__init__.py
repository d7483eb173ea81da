"""Agents of other frameworks behind the server kit."""
