"""Contracts as tests, for people who write a log or a server."""
