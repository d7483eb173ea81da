"""The fault server of the testing kit, with the parts of it that only these tests use."""

from coreason_client.testing.faults import FAULTS, Fault, FaultServer, File, RecordedRequest
from coreason_client.testing.faults import FaultRun as Run
from coreason_client.testing.faults import _wire as wire
from coreason_client.testing.faults._content_faults import GARBAGE
from coreason_client.testing.faults._exchange import MIB, PIECE, FaultExchange
from coreason_client.testing.faults._logs import plain_log, stream_error
from coreason_client.testing.faults._table import FOREVER, describe
from coreason_client.testing.faults._wire import (
    BOM,
    Packet,
    block,
    compact,
    number,
    sse,
)

__all__ = [
    "BOM",
    "FAULTS",
    "FOREVER",
    "GARBAGE",
    "MIB",
    "PIECE",
    "Fault",
    "FaultExchange",
    "FaultServer",
    "File",
    "Packet",
    "RecordedRequest",
    "Run",
    "block",
    "compact",
    "describe",
    "number",
    "plain_log",
    "sse",
    "stream_error",
    "wire",
]
