"""Clients in processes that fork."""
