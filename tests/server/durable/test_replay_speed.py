"""A replay takes time in proportion to what it does again."""

import time

import pytest

from coreason_client.server.durable._journal import Journal
from coreason_client.server.durable._notes import Begun, Done, Note
from coreason_client.server.durable._replay import Finished, Logged, Replay

STEPS = 4000
PACKETS = 3  # of a step


def origin() -> tuple[list[Note], list[Logged]]:
    """Return the notes and the packets of an agent that has called many steps in a loop."""
    notes: list[Note] = []
    for number in range(STEPS):
        path, first = f"search#{number + 1}", number * PACKETS + 1
        notes.append(Begun(path, "rerun", "search", "digest", first))
        notes.append(Done(path, "result", number, first + PACKETS - 1))
    logged = [Logged(seq, "DELTA", "text") for seq in range(1, STEPS * PACKETS + 1)]
    return notes, logged


@pytest.mark.proves("DUR-13-replay")
def test_many_steps_do_not_slow_each_other_down() -> None:
    notes, logged = origin()
    start = time.process_time()
    replay = Replay(Journal(notes), logged)
    for number in range(STEPS):
        done = replay.begin_step(f"search#{number + 1}", "rerun", "search", "digest")
        assert isinstance(done, Finished)
        assert done.done.value == number
    assert replay.complete
    # About 0.05 s. It took 10 s when each step looked at all others, and 4 s when only its end did.
    assert time.process_time() - start < 1.0
