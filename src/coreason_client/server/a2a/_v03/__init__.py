"""Version 0.3 of the protocol, for agents: the inverse of `coreason_client.a2a._v03`."""
