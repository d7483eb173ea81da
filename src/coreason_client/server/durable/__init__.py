"""The rules of durable agents: what is journaled, and how a restarted agent is replayed. No I/O."""
