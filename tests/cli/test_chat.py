"""`coreason chat` with one question: what goes where, and how it ends."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from coreason_client.server import AgentApp, ServiceRequest, running
from coreason_client.testing import virtual_clock
from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    EventPacket,
    parse_packet,
)
from tests.faults import FaultServer

from .command import COMMAND, PATIENCE, Process, coreason, coreason_here, environment, shown
from .conftest import Service

QUESTION = "How do I resume a stream?"
SHORT = "What is a position?"


@pytest.fixture(scope="module")
def faults() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


async def hello(request: ServiceRequest) -> str:
    return "hello"


def test_a_question_is_answered_in_plain_text_through_a_pipe(tmp_path: Path) -> None:
    done = coreason("chat", QUESTION, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "resume" in done.stdout
    assert re.search(r"^\[1\] .*: docs/.*\.md#", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    assert done.stdout.endswith("\n")


def test_the_question_can_come_from_stdin_and_a_proxy_of_the_environment_is_not_asked() -> None:
    env = {"FORCE_COLOR": "1", "HTTP_PROXY": "http://127.0.0.1:1"}
    done = coreason_here("chat", stdin="What is a position?\n", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The position moves when a packet is delivered" in done.stdout
    assert "\x1b" not in done.stdout


def test_files_are_attached_or_refused_before_anything_is_sent(
    service: Service, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("inside")
    (tmp_path / "empty").touch()
    done = coreason_here("chat", "--url", service.url, "-a", "a.txt", "What?", cwd=tmp_path)
    assert done.stdout == "Before: []. Now: File a.txt:\n\ninside\n\nWhat?.\n"
    done = coreason_here("chat", "--url", service.url, "-a", "-", stdin="piped", cwd=tmp_path)
    assert done.stdout == "Before: []. Now: File stdin:\n\npiped.\n"
    for arguments, says in (
        (["-a", "empty", "What?"], "--attach empty: the file is empty"),
        (["-a", "missing", "What?"], "--attach missing: no such file or directory"),
        (["-a", "-", "-a", "-", "What?"], "--attach - can be given once"),
        (["-a", "-", "What?", "-"], "- can be given once: stdin is already the attachment"),
    ):
        done = coreason_here("chat", "--url", "http://127.0.0.1:1", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


def test_json_is_one_packet_a_line_with_close_last() -> None:
    done = coreason_here("chat", "--json", QUESTION)
    packets = [parse_packet(line.encode()) for line in done.stdout.splitlines()]
    assert [packet.seq for packet in packets] == list(range(1, len(packets) + 1))
    assert {type(packet) for packet in packets} == {DeltaPacket, EventPacket, ClosePacket}
    assert isinstance(packets[-1], ClosePacket)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_chaos_loses_and_doubles_nothing(seed: int) -> None:
    with virtual_clock():
        done = coreason_here("chat", "--chaos", "--seed", str(seed), SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    match = re.match(
        r"Resumed after (\d+) cuts.*, nothing lost or duplicated: (\d+) .*, (\d+) ", last
    )
    assert match is not None, last
    cuts, received, logged = map(int, match.groups())
    assert cuts > 0
    assert received == logged > 20


def test_chaos_with_json_reports_on_stderr(service: Service) -> None:
    with virtual_clock():
        done = coreason_here("chat", "--chaos", "--json", "--url", service.url, "hello")
    packets = [parse_packet(line.encode()) for line in done.stdout.splitlines()]
    assert isinstance(packets[-1], ClosePacket)
    assert "nothing lost or duplicated" in done.stderr
    assert "--seed" in done.stderr


def test_chaos_works_with_any_service_that_resumes(faults: FaultServer) -> None:
    run = faults.run("correct", packets=40)
    with virtual_clock():
        done = coreason_here("chat", "--chaos", "--seed", "4", "--url", run.base_url, "hello")
    assert (done.returncode, done.stderr) == (0, "")
    answer, _, last = done.stdout.rstrip().rpartition("\n\n")
    assert answer == run.text
    assert re.match(r"Resumed after [1-9]\d* cuts?.*, nothing lost or duplicated: 41 .*, 41 ", last)


# How it ends


@pytest.mark.parametrize(
    ("fault", "options", "code", "says"),
    [
        ("fatal_error", {}, 1, "model_unavailable"),
        ("status_first", {"status": 401}, 1, "HTTP 401"),
        ("accept_and_close", {}, 3, "cannot be reached"),
        ("bad_json", {}, 4, "not valid"),
    ],
)
def test_a_fault_of_the_service_has_its_exit_code(
    faults: FaultServer, fault: str, options: dict[str, Any], code: int, says: str
) -> None:
    run = faults.run(fault, packets=6, fault_after=3, **options)
    done = coreason_here("chat", "--url", run.base_url, "--max-retries", "0", "hello")
    assert done.returncode == code
    assert re.fullmatch(rf"error: .*{says}.*\n", done.stderr)
    assert run.wait_all_closed()


def test_a_lost_connection_is_healed_and_told_only_with_v(faults: FaultServer) -> None:
    run = faults.run("rst_mid_event", packets=6, fault_after=3)
    done = coreason_here("chat", "-v", "--url", run.base_url, "hello")
    assert (done.returncode, done.stdout) == (0, run.text + "\n")
    assert "reconnecting in" in done.stderr


def test_a_port_where_nobody_listens() -> None:
    done = coreason_here("chat", "--url", "http://127.0.0.1:1", "--max-retries", "0", "hello")
    assert done.returncode == 3
    assert re.fullmatch(r"error: http://127.0.0.1:1 cannot be reached: .*\n", done.stderr)
    assert "attempt" not in done.stderr


def test_a_certificate_that_is_not_trusted_is_no_number_of_attempts(tmp_path: Path) -> None:
    issued, pem = trustme.CA().issue_cert("127.0.0.1"), tmp_path / "both.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(pem)
    with running(AgentApp(hello), ssl_certfile=pem) as server:
        done = coreason_here("chat", "--url", server.url, "hello")
    assert done.returncode == 3
    assert re.fullmatch(r"error: .* cannot be reached: .*certificate.*\n", done.stderr)
    assert "attempt" not in done.stderr


def test_an_agent_that_fails_shows_no_secret(service: Service) -> None:
    done = coreason_here("chat", "--url", service.url, "break")
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_ctrl_c_stops_the_answer_and_the_agent(service: Service) -> None:
    mark = service.folder / "cancelled"
    mark.unlink(missing_ok=True)
    with Process("chat", "--url", service.url, "wait") as process:
        process.expect("begun ")
        process.signal(signal.SIGINT)
        assert process.end() == 130
        assert process.errors == ""
    assert comes_to_be(mark)


def test_a_reader_that_goes_away_is_no_drama(faults: FaultServer) -> None:
    # More text than a pipe holds, so the command cannot end before the reader goes away.
    run = faults.run("correct", packets=3000, text="w{n} " + "x" * 100)
    with Process("chat", "--url", run.base_url, "hello") as process:
        process.expect("w1 ")
        process.hang_up()
        assert process.end() == 141
        assert process.errors == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_sentence(faults: FaultServer) -> None:
    run = faults.run("correct", packets=3)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "chat", "--url", run.base_url, "hello"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert re.fullmatch("error: the output cannot be written: .*\n", done.stderr)


# In a terminal


def test_a_terminal_sees_colours_bars_thoughts_and_sources() -> None:
    with Process("chat", QUESTION, terminal=True, fresh=True) as process:
        assert process.end() == 0
        text = shown(process.text)
        assert re.search(r"\x1b\[[0-9;]*3[0-9]m", process.text)
    for part in ("Looking for", "━", "100 %", "Sources", "[1]"):
        assert part in text


def test_no_color_takes_the_colours_away() -> None:
    with Process("chat", SHORT, terminal=True, env={"NO_COLOR": "1"}) as process:
        assert process.end() == 0
        assert not re.search(r"\x1b\[(?:[0-9]+;)*(?:3|4|9|10)[0-9](?:;[0-9]+)*m", process.text)
        assert "Sources" in shown(process.text)


def comes_to_be(path: Path) -> bool:
    """Wait until a file is there; it is written by another process, which tells nobody."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path.exists()
