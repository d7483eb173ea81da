"""Streams without a server: what an agent gets, and the writer behind it."""

from coreason_client.server import AgentStream
from coreason_client.server.engine._steps import Steps
from coreason_client.server.engine._writer import StreamWriter
from coreason_client.server.log import StreamLog, StreamMeta
from coreason_manifest.definitions.service import ServiceRequest


def agent_stream(request: ServiceRequest, meta: StreamMeta, log: StreamLog) -> AgentStream:
    """Return a stream as an agent gets it."""
    return AgentStream(StreamWriter(request, meta, log), Steps(meta.stream_id))


def writer_of(stream: AgentStream) -> StreamWriter:
    """Return the writer that the producer of a stream holds."""
    return stream._writer
