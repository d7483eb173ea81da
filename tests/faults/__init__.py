"""A faulty HTTP/1.1 server on loopback: every way to lose, bend or refuse a stream, by name.

    with FaultServer() as server:
        run = server.run("fin_mid_event_chunked", packets=20, fault_after=8)
        ...  # a client posts to f"{run.base_url}/assist"
        assert run.last_event_ids == [None, f"{run.stream_id}:8"]
        assert run.wait_all_closed()

``describe()`` gives one sentence for each fault.
"""

from .scripts import FAULTS, FOREVER, Fault, describe, fault, stream_error
from .server import Connection, Exchange, FaultServer, RecordedRequest, Run
from .wire import File, Packet, sse

__all__ = [
    "FAULTS",
    "FOREVER",
    "Connection",
    "Exchange",
    "Fault",
    "FaultServer",
    "File",
    "Packet",
    "RecordedRequest",
    "Run",
    "describe",
    "fault",
    "sse",
    "stream_error",
]
