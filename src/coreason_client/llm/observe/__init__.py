"""Telemetry and hooks of the AI client."""
