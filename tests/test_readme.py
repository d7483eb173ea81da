"""The code in the README runs as printed, with only the address and the key changed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import FaultServer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def agent() -> Iterator[str]:
    with FaultServer() as server:
        yield server.run("fin_mid_event_chunked").base_url


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_runs(number: int, agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = BLOCKS[number].replace("https://agent.example", agent)
    exec(compile(code, f"README.md, example {number + 1}", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
