"""Tests of the protocol for pages that use the AI SDK."""
