"""The gRPC binding of A2A.

`_messages` and `_status` are pure and belong to no side: a client and a server use the same tables.
`_channel` has the rules of the client; only `_connection` and the two senders import `grpc`.
Everything here needs the extra `grpc`, except for `_address`.
"""
