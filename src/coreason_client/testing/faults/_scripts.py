"""All faults: importing this module fills `FAULTS`."""

from . import _contents, _lost_connections, _numbers, _responses, _stream_errors
from ._table import FAULTS

__all__ = ["FAULTS"]

_MODULES = (_lost_connections, _responses, _numbers, _contents, _stream_errors)
