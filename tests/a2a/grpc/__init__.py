"""The gRPC binding of the A2A clients."""
