"""Version 0.3 of the protocol, for clients: its shapes, and its forms over HTTP+JSON and gRPC.

All of 0.3 is here, apart from `V03` in `_dialects`, bare events in `_wire`, and the 0.3 messages
and error names in `_grpc`. Agents need the inverse, which is in `server/a2a/_v03`.
"""
