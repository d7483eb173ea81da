"""Ready-made agents for the server kit, one per module."""
