"""The examples of the page about telemetry and hooks run as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from coreason_client.llm.observe import _telemetry_names as names
from tests.llm.server import Provider

from .collect import KEY, MESSAGES, answer

PAGE = (Path(__file__).parents[3] / "docs" / "llm-operating.md").read_text(encoding="utf-8")
SECTIONS = {
    title: PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    for title in ("Telemetry", "Hooks")
}
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("title", SECTIONS)
def test_an_example_runs(
    server: Provider,
    title: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LLM_API_KEY", KEY)
    monkeypatch.setenv("LLM_API_BASE_URL", server.url)
    monkeypatch.setenv("DEFAULT_MODEL", "m")
    server.replies = [answer()]
    [example] = PYTHON.findall(SECTIONS[title])
    variables: dict[str, Any] = {}
    exec(compile(example, f"docs/llm-operating.md, {title}", "exec"), variables)
    with variables["client"] as client:
        assert client.generate(MESSAGES)["data"]["content"] == "Paris"
        if title == "Hooks":
            with pytest.raises(ValueError, match="too large"):
                client.generate([{"role": "user", "content": "a" * 1_000_001}])
    assert re.fullmatch(r"(1 m 200 0\.\d s\n)?", capsys.readouterr().out)


def test_every_name_on_the_page_is_in_the_table() -> None:
    found = re.findall(r"`((?:gen_ai|coreason)\.[a-z_.]+)(?=[`*])", SECTIONS["Telemetry"])
    table = [
        value.name if isinstance(value, names.Metric) else value
        for value in vars(names).values()
        if isinstance(value, str | names.Metric)
    ]
    assert len(found) > 15
    for name in found:
        assert name in table or any(known.startswith(name) for known in table), name
