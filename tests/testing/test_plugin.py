"""The fixtures, and the plugin as users have it: by its entry point, by name, or not at all."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from coreason_client import A2AClient, CAPClient, LLMClient, _clock
from coreason_client.testing import (
    ChaosProxy,
    FakeA2A,
    FakeAgent,
    FakeModel,
    FaultServer,
    NetworkBlocked,
    Replay,
    VirtualClock,
    _no_network,
    disconnect,
    fake_a2a,
    plugin,
)

ROOT = Path(__file__).parents[2]
PLUGIN = "coreason_client.testing.plugin"

USERS_TESTS = """
def test_it(coreason_clock, coreason_no_network):
    assert coreason_clock.waits == []
"""


def test_a_test_does_not_get_the_card_of_an_agent_that_had_the_same_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_a2a("Hello") as agent:
        A2AClient.connect(agent.url).close()
        asked = len(agent.requests)
        A2AClient.connect(agent.url).close()
        assert len(agent.requests) == asked, "the card is not cached, so this proves nothing"
        plugin.pytest_runtest_setup()
        A2AClient.connect(agent.url).close()
        assert len(agent.requests) > asked
    monkeypatch.delitem(sys.modules, "coreason_client.a2a._card")
    plugin.pytest_runtest_setup()  # nothing to forget


@pytest.mark.proves("KIT-fixtures")
def test_the_fixtures_do_what_their_names_say(
    coreason_agent: Callable[..., FakeAgent],
    coreason_chaos: Callable[..., ChaosProxy],
    coreason_clock: VirtualClock,
    coreason_faults: FaultServer,
    coreason_no_network: None,
    coreason_model: Callable[..., FakeModel],
    coreason_a2a: Callable[..., FakeA2A],
) -> None:
    with LLMClient(**coreason_model("Hello").options()) as llm:
        assert llm.generate([{"role": "user", "content": "Hi"}])["data"]["content"] == "Hello"
    with A2AClient.connect(coreason_a2a("Hello").url) as a2a:
        assert a2a.send_message("Hi").text == "Hello"
    agent = coreason_agent(["a", disconnect(), "b"])
    other = coreason_agent("c")
    proxy = coreason_chaos(agent.url, seed=1, faults=("split",))
    with CAPClient(proxy.url, "key") as client, CAPClient(other.url, "key") as second:
        assert client.ask("Hi") + second.ask("Hi") == "abc"
    run = coreason_faults.run("gap_once")
    with CAPClient(run.base_url, "key") as client:
        assert client.ask("Hi") == run.text
    assert len(coreason_clock.waits) == 2
    with pytest.raises(NetworkBlocked):
        CAPClient("http://192.0.2.7", "key").ask("Hi")


def test_every_fixture_has_a_prefix_and_is_exported() -> None:
    fixtures = [name for name in vars(plugin) if name.startswith("coreason_")]
    assert sorted(fixtures) == plugin.__all__


def test_the_entry_point_has_the_name_of_the_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


@pytest.mark.parametrize("named", [False, True])
def test_with_its_entry_point_it_is_registered_once(tmp_path: Path, named: bool) -> None:
    """As after `pip install`, also if a user names the plugin in addition, in both ways."""
    if named:
        (tmp_path / "conftest.py").write_text(f"pytest_plugins = [{PLUGIN!r}]\n")
    done = run_pytest(tmp_path, *(["-p", PLUGIN] if named else []))
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def run_pytest(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run a user's test with an installed package that has our entry point."""
    (folder / "test_users.py").write_text(USERS_TESTS)
    info = folder / "site" / "users_view-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: users-view\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pytest11]\n{PLUGIN} = {PLUGIN}\n")
    quiet = [f"-pno:{name}" for name in ("schemathesis", "xdist", "hypothesispytest", "anyio")]
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-Werror", "-pno:cacheprovider", *quiet, *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.proves("KIT-light")
def test_loading_the_plugin_imports_nothing_heavy() -> None:
    program = (
        f"import sys, pytest, _pytest.config; before = set(sys.modules); import {PLUGIN}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == [
        "coreason_client",
        "coreason_client._lazy",
        "coreason_client._version",
        "coreason_client.testing",
        PLUGIN,
        "coreason_manifest",
        "coreason_manifest.definitions",
    ]


def test_the_kit_needs_no_pytest_and_names_the_extra_that_is_missing() -> None:
    program = (
        "import sys; sys.modules['pytest'] = sys.modules['starlette'] = None\n"
        "import coreason_client.testing as kit\n"
        "for name in kit.__all__:\n"
        "    try: getattr(kit, name)\n"
        "    except ImportError as error: print(name, type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    failed = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert {"FakeAgent", "fake_agent", "disconnect"} <= failed.keys()
    assert failed["fake_agent"] == (
        "MissingExtraError coreason_client.testing.fake_agent needs the extra 'server': "
        "pip install 'coreason-client[server]'"
    )
    # The contracts are tests, so they do need it.
    needs_pytest = {name for name, message in failed.items() if "import of pytest" in message}
    assert needs_pytest == {"ServerContract", "ServerUnderTest"}
    others = failed.keys() - needs_pytest
    assert all(failed[name].startswith("MissingExtraError ") for name in others)
    assert not failed.keys() & {"FaultServer", "ChaosProxy", "virtual_clock", "no_network"}


def test_guards_of_the_plugin_end_with_the_test() -> None:
    assert _no_network._guards == 0
    assert _clock.real_seconds(1) == 1


def test_a_recording_is_made_only_on_request(coreason_recording: Callable[..., Replay]) -> None:
    with pytest.raises(FileNotFoundError, match=r"only_on_request.jsonl: run this"):
        coreason_recording("http://192.0.2.7")
