"""The process of durable agents is killed with SIGKILL in the middle of their answers.

On SQLite the same process is started again; on Valkey another replica continues.
"""

import asyncio
from dataclasses import dataclass

import pytest

from coreason_client.cap.answer import Rewound

from .durable_answers import DISTURBED, EXPECTED, REWINDS, A, Read, Reader
from .durable_fleet import Site, on_sqlite, on_valkey
from .durable_replica import UNDISTURBED


@dataclass(frozen=True, slots=True)
class Session:
    """The answers around the death of a process."""

    read: dict[str, Read]
    notes: list[str]
    errors: str

    def calls(self, name: str) -> list[str]:
        """Return the arguments with which the steps of an answer were called."""
        prefix = f"called {self.read[name].stream_id} "
        return [line.removeprefix(prefix) for line in self.notes if line.startswith(prefix)]


@pytest.fixture(scope="module", params=["sqlite", "valkey"])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """All answers are interrupted by the same kill, so a few processes are enough."""
    folder = tmp_path_factory.mktemp("durable")
    if request.param == "sqlite":
        with on_sqlite(folder) as site:
            return interrupted(site)
    with on_valkey(folder) as site:
        return interrupted(site)


def interrupted(site: Site) -> Session:
    """Kill the first replica in the middle of all answers, and read the rest."""
    first, *others = site.replicas
    readers = {question: Reader(site.client, question) for question in DISTURBED}
    for reader in readers.values():
        reader.until_held()
    first.kill()
    if others:
        site.route_to(*others)
    else:
        asyncio.run(first.start())
    for name in EXPECTED:
        question = f"{name} {UNDISTURBED}"
        readers[question] = Reader(site.client, question)
    read = {question: reader.rest() for question, reader in readers.items()}
    return Session(read, list(site.fleet.notes()), site.fleet.errors())


@pytest.mark.proves("DUR-compare")
@pytest.mark.parametrize("name", EXPECTED)
def test_the_reader_gets_the_undisturbed_answer(session: Session, name: str) -> None:
    disturbed, undisturbed = session.read[name], session.read[f"{name} {UNDISTURBED}"]
    assert disturbed.error is undisturbed.error is None
    assert disturbed.text == undisturbed.text == "".join(map(str, disturbed.pieces))
    assert disturbed.text == EXPECTED[name]
    assert disturbed.packets == undisturbed.packets
    assert disturbed.stream_id != undisturbed.stream_id


def test_a_step_that_has_ended_is_not_called_again(session: Session) -> None:
    assert session.calls("table") == ["A", "B", "B"]


def test_a_resumed_step_continues_after_its_checkpoint(session: Session) -> None:
    assert session.calls("resume") == ["0", "5"]


def test_a_step_that_must_not_run_twice_ends_the_stream(session: Session) -> None:
    read = session.read["fail"]
    assert read.error == "step_uncertain"
    assert read.text == "A0 A1 A2 A3 A4 "
    assert session.calls("fail") == ["pay"]


def test_other_text_in_the_second_run_makes_the_first_one_void(session: Session) -> None:
    read = session.read[f"differ {REWINDS}"]
    second = "".join(f"A{number}/2 " for number in range(2, 10))
    assert read.error is None
    assert read.text == f"Words: A0 A1 {second}run 2"
    assert [piece for piece in read.pieces if isinstance(piece, Rewound)] == [
        Rewound("Words: A0 A1 ", 3)
    ]


@pytest.mark.proves("DUR-rewind")
def test_a_client_without_rewinds_never_gets_two_runs(session: Session) -> None:
    read = session.read["differ"]
    assert read.error == "producer_lost"
    assert read.text == "Words: A0 A1 A2/1 A3/1 A4/1 "


def test_the_case_of_the_documentation(session: Session) -> None:
    """The process dies after B4 of A0…A9 B0…B9; the reader gets each word once."""
    pieces = session.read["table"].pieces
    assert pieces == [f"{letter}{number} " for letter in "AB" for number in range(10)]
    assert A in session.read["table"].text


@pytest.mark.proves("DUR-15-observe")
def test_each_restart_is_one_line_and_no_traceback(session: Session) -> None:
    assert "Traceback" not in session.errors
    for question in DISTURBED:
        lines = [
            line for line in session.errors.splitlines() if session.read[question].stream_id in line
        ]
        assert sum("is continued after packet" in line for line in lines) == 1
