"""All readers are woken together, and at most once a second."""

from coreason_client.server import MemoryStreamLog
from coreason_client.server.engine._upkeep import ReaderWake

from ..virtual import virtual, virtual_loop


class Counted(MemoryStreamLog):
    """Counts how often its readers are woken."""

    wakes = 0

    def wake_readers(self) -> None:
        self.wakes += 1


@virtual
async def test_readers_are_woken_once_for_all_and_at_most_once_a_second() -> None:
    loop, log = virtual_loop(), Counted()
    wake = ReaderWake(log)
    for _ in range(3):
        wake.schedule()
    assert log.wakes == 0  # not within the call: the caller may be in the middle of something
    await loop.forward(0)
    assert log.wakes == 1
    wake.schedule()
    await loop.forward(0.9)
    wake.schedule()
    assert log.wakes == 1
    await loop.forward(0.1)
    assert log.wakes == 2
    await loop.forward(60)
    assert log.wakes == 2  # nobody asked
    wake.schedule()
    await loop.forward(0)
    assert log.wakes == 3
