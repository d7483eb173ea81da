"""The pages about the testing kit are complete; tests/docs runs their code."""

import re
from pathlib import Path

from coreason_client import testing
from coreason_client.testing import FAULTS, plugin

DOCS = Path(__file__).parents[2] / "docs"
# The first page, and the others.
PAGE = "\n".join(
    page.read_text(encoding="utf-8")
    for page in [DOCS / "testing.md", *sorted(DOCS.glob("testing-*.md"))]
)


def test_a_reconnect_is_tested_in_six_lines() -> None:
    first = re.search(r"```python[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    assert first is not None
    lines = [line for line in first[1].splitlines() if line.strip()]
    assert len(lines) <= 6
    assert "disconnect()" in first[1]


def test_every_fault_is_described_as_it_describes_itself() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.*) \|$", PAGE, re.MULTILINE)
    listed = {name: (sentence, options) for name, sentence, options in rows}
    expected = {}
    for name, fault in FAULTS.items():
        common = () if fault.always else ("times", "every")
        own = [f"`{option}`" for option in fault.options if option not in common]
        expected[name] = (fault.summary, ", ".join(own))
    assert listed == expected


def test_every_fixture_and_every_name_is_on_a_page() -> None:
    assert [name for name in plugin.__all__ if f"| `{name}` |" not in PAGE] == []
    results = {"FAULTS", "FakeAgent", "Fault", "FaultRun", "ReceivedRequest", "RecordedRequest"}
    results |= {"A2ARequest", "FakeA2A", "FakeModel", "ModelRequest", "Recorder", "Replay"}
    shown = set(testing.__all__) - results
    assert [name for name in sorted(shown) if not re.search(rf"\b{name}\b", PAGE)] == []
