"""The fake provider of models: turns, and an encoder for each wire format."""
