"""The code in the README runs as printed, with only the address and the key changed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.a2a.loopback import serve as serve_a2a
from tests.cli.models import model
from tests.faults import FaultServer
from tests.llm.server import Replied

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SPOKEN = b'{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}'
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What stands for the addresses in the examples: agents and a model on this machine."""
    with FaultServer() as server, serve_a2a() as a2a, model(Replied(body=SPOKEN)) as provider:
        for name, value in provider.env.items():
            monkeypatch.setenv(name, value)
        yield {
            "https://agent.example": server.run("fin_mid_event_chunked").base_url,
            "https://a2a.example": a2a.url,
        }


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_runs(
    number: int, addresses: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = BLOCKS[number]
    for printed, real in addresses.items():
        code = code.replace(printed, real)
    exec(compile(code, f"README.md, example {number + 1}", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


def test_the_shortest_a2a_program_has_four_lines() -> None:
    [program] = [block for block in BLOCKS if "A2AClient" in block]
    assert len([line for line in program.splitlines() if line.strip()]) == 4
