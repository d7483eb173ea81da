"""What an operator sees: metrics, spans and log lines."""
