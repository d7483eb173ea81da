"""The prompt of a conversation: how lines are typed, kept and understood."""

from ._key_rules import leaves_after_ctrl_c
from ._open_reader import open_reader
from ._reader import LineCleared, Reader
from ._slash import Command, Mistake, command_help, parse_line

__all__ = [
    "Command",
    "LineCleared",
    "Mistake",
    "Reader",
    "command_help",
    "leaves_after_ctrl_c",
    "open_reader",
    "parse_line",
]
