"""The subjects, each measured in its own process."""

from importlib import import_module

from ._measure import Effort, Table
from ._process import in_new_process

__all__ = ["SUBJECTS", "run"]

# Each is a module here with a function `table`; the order is that of the output.
SUBJECTS = (
    "decode",
    "shapes",
    "packets",
    "large",
    "imports",
    "client",
    "fanout",
    "resume",
    "server",
    "tokens",
    "valkey",
    "postgres",
    "hold",
    "durable",
    "a2a",
    "a2a-server",
    "protocols",
    "llm",
)


def run(subject: str, effort: Effort) -> Table:
    """Measure in a new process, so no subject depends on an earlier one."""
    return in_new_process(_table)(subject, effort)


def _table(subject: str, effort: Effort) -> Table:
    module = subject.replace("-", "_")
    table: Table = import_module(f".{module}", __package__).table(effort)
    return table
