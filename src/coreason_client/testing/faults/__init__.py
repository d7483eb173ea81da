"""A server whose streams have faults: lost connections, wrong numbers, broken events, by name.

    with FaultServer() as server:
        run = server.run("fin_mid_event_chunked", fault_after=8)
        with CAPClient(run.base_url, "key") as client:
            assert client.ask("Hello") == run.text
        assert run.last_event_ids == [None, f"{run.stream_id}:8"]

`FAULTS` has a sentence about each fault. `python -m coreason_client.testing.faults` serves them to
programs in other languages.
"""

from ._run import FaultRun, RecordedRequest
from ._server import FaultServer
from ._table import FAULTS, Fault
from ._wire import File

__all__ = ["FAULTS", "Fault", "FaultRun", "FaultServer", "File", "RecordedRequest"]
