"""`--tool`: the model calls Python functions."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.llm.server import Replied

from .command import Process, coreason_here, shown
from .models import MODEL, Model, answer, chunk, model, spoken, streamed

MODULE = '''
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."

async def get_time() -> str:
    """Return the time."""
    return "Noon."

def fail() -> str:
    """Fail."""
    raise ValueError("no luck")

number = 7
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "tools_of_the_test.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("tools_of_the_test", None)


def call(*calls: tuple[str, dict[str, Any]], text: str = "") -> Replied:
    wanted = [
        {
            "index": index,
            "id": f"c{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(calls)
    ]
    first = [chunk(content=text)] if text else []
    return streamed([*first, chunk(tool_calls=wanted), *spoken(finish="tool_calls")])


def run(served: Model, folder: Path, *arguments: str) -> tuple[int, str, str]:
    env = {**served.env, "XDG_DATA_HOME": str(folder / "data")}
    done = coreason_here("llm", *arguments, env=env, cwd=folder)
    return done.returncode, done.stdout, done.stderr


TOOLS = ("--tool", "tools_of_the_test:get_weather", "--tool", "tools_of_the_test:get_time")


def test_the_model_calls_functions_and_then_answers(folder: Path) -> None:
    calls = call(("get_weather", {"city": "Rome"}), ("get_time", {}), text="Let me see.")
    with model(calls, answer("Take an umbrella.")) as served:
        code, out, err = run(served, folder, "-m", MODEL, *TOOLS, "Umbrella?")
        assert (code, out, err) == (0, "Let me see.\nTake an umbrella.\n", "")
        [asked, called, *results] = served.sent()
        assert (asked, called[0]) == (("user", "Umbrella?"), "assistant")
        assert results == [("tool", "Rain in Rome."), ("tool", "Noon.")]
        names = [tool["function"]["name"] for tool in served.received[0].json["tools"]]
        assert names == ["get_weather", "get_time"]
        assert run(served, folder, "-c", "And tomorrow?")[0] == 0
        roles = [role for role, _ in served.sent()]
        assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
        code, out, _ = run(served, folder, "logs", "--json")
        chosen = json.loads(out)["conversation"]
        code, out, _ = run(served, folder, "logs", "--cid", chosen)
        assert out.partition("tokens")[2].splitlines()[1:10] == [
            "",
            "> Umbrella?",
            "",
            "Let me see.",
            '→ get_weather {"city": "Rome"}',
            "→ get_time {}",
            "",
            "← Rain in Rome.",
            "",
        ]


def test_json_has_the_usage_of_all_turns(folder: Path) -> None:
    with model(call(("get_time", {})), answer("Noon.")) as served:
        code, out, _ = run(served, folder, "-m", MODEL, *TOOLS, "--json", "Time?")
    response = json.loads(out)
    assert (code, response["data"]["content"]) == (0, "Noon.")
    assert response["usage"]["total_tokens"] == 2 * 29


def test_a_schema_applies_to_the_last_answer(folder: Path) -> None:
    schema = '{"type": "object", "required": ["rain"]}'
    with model(call(("get_time", {})), answer('{"rain": true}')) as served:
        options = (*TOOLS, "--schema", schema, "Rain?")
        assert run(served, folder, "-m", MODEL, *options) == (0, '{"rain": true}\n', "")
        assert run(served, folder, "-c", "Sure?")[0] == 0
        assert served.sent()[-2] == ("assistant", '{"rain": true}')


def test_a_tool_that_fails_too_often_ends_the_run_and_is_saved(folder: Path) -> None:
    with model(call(("fail", {}))) as served:
        options = ("--tool", "tools_of_the_test:fail", "Go.")
        code, out, err = run(served, folder, "-m", MODEL, *options)
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert "fail" in err
        _, out, _ = run(served, folder, "logs", "--json")
        assert json.loads(out)["turns"] == 1


def test_a_terminal_shows_the_calls(folder: Path) -> None:
    with (
        model(call(("get_weather", {"city": "Rome"})), answer("Rain.")) as served,
        Process(
            *("llm", "-m", MODEL, *TOOLS, "Weather?"), env=served.env, cwd=folder, terminal=True
        ) as process,
    ):
        assert process.end() == 0
        text = shown(process.text)
    assert 'get_weather {"city": "Rome"}' in text
    assert text.index("get_weather") < text.index("Rain.")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("get_weather", "--tool must be given as MODULE:ATTRIBUTE, such as my_module:get_weather"),
        ("no_such_module:f", "module no_such_module not found"),
        ("tools_of_the_test:f", "module tools_of_the_test has no attribute 'f'"),
        ("tools_of_the_test:number", "must be a function"),
    ],
)
def test_a_wrong_tool_is_wrong_usage(folder: Path, name: str, says: str) -> None:
    with model(answer("Yes.")) as served:
        code, out, err = run(served, folder, "--tool", name, "Hi")
    assert (code, out, served.received) == (2, "", [])
    assert says in err
