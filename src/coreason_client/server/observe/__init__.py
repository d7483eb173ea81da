"""Observability: metrics, spans and log lines."""
