"""The gRPC binding of A2A.

`_messages`, `_convert`, `_methods`, `_metadata` and `_status` are pure and belong to no side: a
client and a server use the same tables. `_agent_v03` has the conversions of a server for 0.3,
`_channel` and `_exchange` have the rules of the client; only `_sender_async` and `_sender_sync`
import `grpc` and do I/O. Everything here needs the extra `grpc`, except for `_address`.
"""
