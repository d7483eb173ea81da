"""The rule for the last packet of a stream. Pure."""

from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    StreamError,
    StreamOpCode,
    StreamPacket,
)

__all__ = ["is_terminal"]


def is_terminal(packet: StreamPacket) -> bool:
    """Return True if nothing may follow a packet: a CLOSE, or a FATAL error."""
    error = packet.p
    is_fatal = isinstance(error, StreamError) and error.severity is ErrorSeverity.FATAL
    return is_fatal or packet.op is StreamOpCode.CLOSE
