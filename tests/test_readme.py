"""The code in the documents runs as printed, with only the address and the key changed."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.a2a.loopback import serve as serve_a2a
from tests.browser import tools
from tests.cli.models import model
from tests.faults import FaultServer
from tests.llm.server import Replied

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SPOKEN = b'{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}'
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = PYTHON.findall(README)
COUNTED = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20 "

# A line of each example of the README, and what the example prints.
PRINTED = {
    "stream.conversation_id)": f"{COUNTED}{COUNTED}\n",
    "https://a2a.example": "1\u20282\u20283\u20284\u2028",
    "generate_sync": "Hello. ",
    "packets.bookmark()": "1 DELTA w1 \n2 DELTA w2 \n3 DELTA w3 \n4 DELTA w4 \n",
    "AgentApp(agent": "1 2 3 as you asked: Count to three.\n" * 2,
}


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The replacements of the addresses in the examples: agents and a model on this machine."""
    with FaultServer() as server, serve_a2a() as a2a, model(Replied(body=SPOKEN)) as provider:
        for name, value in provider.env.items():
            monkeypatch.setenv(name, value)
        yield {
            "https://agent.example": server.run("fin_mid_event_chunked").base_url,
            "https://a2a.example": a2a.url,
        }


def run_block(code: str, addresses: dict[str, str], name: str) -> None:
    for printed, real in addresses.items():
        code = code.replace(printed, real)
    exec(compile(code, name, "exec"), {"__name__": "__main__"})


def test_every_example_is_known() -> None:
    assert len(BLOCKS) == len(PRINTED)


@pytest.mark.parametrize("line", PRINTED)
def test_an_example_prints_what_it_should(
    line: str, addresses: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = [block for block in BLOCKS if line in block]
    run_block(code, addresses, f"README.md, {line}")
    assert capsys.readouterr().out.startswith(PRINTED[line])


def test_the_example_of_a_bookmark_runs(
    addresses: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = PYTHON.findall((ROOT / "docs" / "cap.md").read_text())
    run_block(code, addresses, "docs/cap.md")
    assert capsys.readouterr().out == COUNTED.replace(" ", " \n", 1)


def test_the_shortest_a2a_program_has_four_lines() -> None:
    [program] = [block for block in BLOCKS if "https://a2a.example" in block]
    assert len([line for line in program.splitlines() if line.strip()]) == 4


def test_the_three_lines_of_javascript_run(addresses: dict[str, str]) -> None:
    [code] = re.findall(r"^```js\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) == 3
    for printed, real in {**addresses, "./coreason.js": tools.CLIENT.as_uri()}.items():
        assert printed in code or "a2a" in printed
        code = code.replace(printed, real)
    given = (
        "const output = {append: (text) => process.stdout.write(text)};"
        "const fetchTicket = async () => 'ticket';"
    )
    done = subprocess.run(
        [tools.node(), "--input-type=module", "--eval", given + code],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == (COUNTED, "")


def test_the_pictures_are_there_and_small() -> None:
    recording, path = re.findall(r"^!\[.{20,}\]\((.*)\)$", README, re.MULTILINE)
    assert (ROOT / recording).is_file()
    content = (ROOT / path).read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    width = int.from_bytes(content[16:20], "big")
    assert (width, 20_000 < len(content) < 200_000) == (1600, True)
