"""The result of an append to a stream of epoch 2 that has three entries.

The same table is held against the rule in Python and against the script in the store.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from coreason_client.server.errors import Fenced, OutOfSequence

EPOCH, LAST_SEQ = 2, 3


@dataclass(frozen=True, slots=True)
class Append:
    """An append of so many entries, to a stream that has ended or not.

    `claimed_seq` is the number of its last entry when its epoch began.
    """

    epoch: int
    first_seq: int
    count: int
    ended: bool
    claimed_seq: int = 0


NEW, REPEATED = "new", "repeated"
APPENDS: list[tuple[Append, str | type[Exception]]] = [
    (Append(2, 4, 1, False), NEW),
    (Append(2, 4, 9, False), NEW),
    (Append(2, 3, 1, False), REPEATED),
    (Append(2, 1, 3, False), REPEATED),
    (Append(2, 1, 3, True), REPEATED),
    (Append(2, 2, 1, True), REPEATED),
    # Half of it is held.
    (Append(2, 3, 2, False), OutOfSequence),
    (Append(2, 1, 4, False), OutOfSequence),
    (Append(2, 3, 2, True), Fenced),
    # A gap.
    (Append(2, 5, 1, False), OutOfSequence),
    (Append(2, 9, 2, False), OutOfSequence),
    # After the end.
    (Append(2, 4, 1, True), Fenced),
    (Append(2, 5, 1, True), Fenced),
    # Another epoch.
    (Append(1, 4, 1, False), Fenced),
    (Append(3, 4, 1, False), Fenced),
    (Append(1, 1, 3, False), Fenced),  # held, but not written by this epoch
    (Append(1, 1, 3, True), Fenced),
    (Append(1, 9, 1, False), Fenced),
    # Nothing at all: it is never held already, and checked like any other append.
    (Append(2, 4, 0, False), NEW),
    (Append(2, 2, 0, False), OutOfSequence),
    (Append(2, 4, 0, True), Fenced),
    (Append(2, 5, 0, False), OutOfSequence),
    (Append(2, 5, 0, True), Fenced),
    (Append(1, 4, 0, False), Fenced),
    # An earlier epoch wrote the first two entries.
    (Append(2, 3, 1, False, 2), REPEATED),
    (Append(2, 2, 1, False, 2), OutOfSequence),
    (Append(2, 1, 3, False, 2), OutOfSequence),
    (Append(2, 2, 2, False, 2), OutOfSequence),
    (Append(2, 1, 3, False, 3), OutOfSequence),
    (Append(2, 2, 1, True, 2), Fenced),
    (Append(2, 4, 1, False, 3), NEW),
]


def all_appends() -> Iterator[Append]:
    """Every append near the table."""
    ends, claims = (False, True), (0, 2, 3)
    for append in product((1, 2, 3), range(7), range(5), ends, claims):
        yield Append(*append)
