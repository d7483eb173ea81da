"""`coreason serve --openai` and several agents: models, paths, and how the processes restart."""

import re
import signal
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from typer.testing import CliRunner

from coreason_client import CAPClient
from coreason_client.cli._app import app
from coreason_client.cli.serve import broken_rule
from coreason_client.cli.serve._application import ServeConfig
from coreason_client.cli.serve._options import ServeOptions
from coreason_client.cli.serve._serving import banner
from coreason_client.server import AgentApp, AgentGroup, OpenAIAPI, running
from tests.each import each
from tests.server.log.valkey_server import ValkeyServer
from tests.server.process.test_reload import replace

from .command import PATIENCE, Process, coreason_here

AGENTS = textwrap.dedent(
    """
    import asyncio
    import os
    from pathlib import Path


    async def cat(request, stream):
        await stream.write(f"meow {stream.question} ")
        await stream.step("wait", wait, stream.question)
        await stream.write("done")


    async def dog(request, stream):
        await stream.write(f"woof {stream.question} ")
        await stream.step("wait", wait, stream.question)
        await stream.write("done")


    async def header(request, stream):
        await stream.write(str(request.payload.metadata.get("headers")))


    async def wait(question):
        while question == "wait" and not Path("go").exists():
            await asyncio.sleep(0.01)


    async def process(request, stream):
        await stream.write(str(os.getpid()))
    """
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pets_here.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def serve(*_: object, **__: object) -> None:
        raise AssertionError("the command was accepted")

    monkeypatch.setattr("coreason_client.server.serve", serve)
    return tmp_path


def config(*agents: str, **options: Any) -> ServeConfig:
    names = [f"pets_here:{name}" for name in agents] or None
    return ServeConfig(ServeOptions(agents=names, **options))


@contextmanager
def client(url: str, key: str = "any") -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=PATIENCE) as made:
        yield made


def ask(made: openai.OpenAI, model: str, text: str = "hi") -> str | None:
    done = made.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])
    return done.choices[0].message.content


def test_the_guide_is_a_model_at_the_printed_address(tmp_path: Path) -> None:
    with Process("serve", "--openai", "--port", "0", cwd=tmp_path) as process:
        printed = process.expect("}'\n")
        [url] = re.findall(r"OpenAI API at (http://\S+/v1), model guide\. ", printed)
        with client(url) as made:
            assert [model.id for model in made.models.list()] == ["guide"]
            assert ask(made, "guide", "How do I resume a stream?")
        process.signal(signal.SIGTERM)
        assert process.end() == 0


def test_a_model_has_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nobody")
    for given, shown in ((None, "anthropic/claude-sonnet-4-5"), ("mine", "mine")):
        served = ServeConfig(
            ServeOptions(llm="anthropic/claude-sonnet-4-5", openai=True, agent_id=given)
        ).app()
        assert isinstance(served, AgentApp)
        assert served.agent_id == shown
        with running(served, log_config=None) as server, client(f"{server.url}/v1") as made:
            assert made.models.retrieve(shown).id == shown


@each(
    ("options", "settings"),
    [
        ({}, False),
        ({"openai": True}, OpenAIAPI()),
        ({"openai_tools": "refuse"}, OpenAIAPI(tools="refuse")),
        ({"openai_headers": ["X-User"]}, OpenAIAPI(headers=["X-User"])),
    ],
)
def test_every_option_of_the_api_implies_it(
    options: dict[str, Any], settings: OpenAIAPI | bool
) -> None:
    assert ServeOptions(**options).serves_openai is bool(settings)
    assert ServeConfig(ServeOptions(**options))._openai_settings() == settings


def test_the_options_of_the_api_reach_the_agent(folder: Path) -> None:
    served = config("header", openai_headers=["X-User"], openai_tools="ignore").app()
    with (
        running(served, log_config=None) as server,
        openai.OpenAI(
            base_url=f"{server.url}/v1", api_key="any", default_headers={"X-User": "ann"}
        ) as made,
    ):
        done = made.chat.completions.create(
            model="pets_here.header",
            messages=[{"role": "user", "content": "hi"}],
            tools=[{"type": "function", "function": {"name": "f"}}],
        )
    assert done.choices[0].message.content == "{'x-user': 'ann'}"


# Several agents.


def test_each_agent_is_below_its_id_and_all_are_models(folder: Path) -> None:
    served = config("cat", "dog", openai=True, a2a=True, root_path="/p").app()
    assert isinstance(served, AgentGroup)
    assert [*served.agents] == ["pets_here.cat", "pets_here.dog"]
    with running(served, log_config=None) as server:
        for prefix in ("", "/p"):
            with client(f"{server.url}{prefix}/v1") as made:
                assert ask(made, "pets_here.dog") == "woof hi done"
            with CAPClient(f"{server.url}{prefix}/pets_here.cat", "any") as cap:
                assert cap.ask("hi") == "meow hi done"


def test_the_card_of_each_agent_has_the_public_url(folder: Path) -> None:
    served = config("cat", "dog", a2a=True, public_url="https://pets.example/all/").app()
    with running(served, log_config=None) as server:
        card = httpx2.get(f"{server.url}/pets_here.dog/.well-known/agent-card.json").json()
    assert card["name"] == "dog"
    assert card["supportedInterfaces"][0]["url"] == "https://pets.example/all/pets_here.dog/a2a"


@each(
    ("options", "says"),
    [
        ({"agent_id": "x"}, "--agent-id is for one agent: leave it out with several"),
        ({"card": "c.json"}, "--card is for one agent: leave it out with several"),
        ({"extended_card": "c.json"}, "--extended-card is for one agent: leave it out"),
        ({"grpc_port": 1}, "--grpc-port is for one agent: leave it out with several"),
        ({"reload": True, "a2a": True, "chaos": True, "openai": True}, None),
    ],
)
def test_options_for_one_agent(options: dict[str, Any], says: str | None) -> None:
    found = broken_rule(ServeOptions(agents=["a:b", "c:d"], **options), ())
    assert found is None if says is None else str(found).startswith(says)
    assert broken_rule(ServeOptions(agents=["a:b"], **options), ()) is None


@each(
    ("arguments", "says"),
    [
        (["pets_here:cat", "pets_here:cat"], "the id of an agent must be another one for each of"),
        (["pets_here:cat", "pets_here:cow"], "module pets_here has no attribute 'cow'"),
        (["pets_here:cat", "--llm", "m"], "pets_here:cat and --llm m cannot be used together"),
        (["pets_here:cat", "--openai-header", "a b"], "--openai-header must be a list of names"),
        (
            ["pets_here:cat", "pets_here:dog", "--grpc-port", "0"],
            "--grpc-port is for one agent: leave it out with several",
        ),
    ],
)
def test_what_is_refused_is_one_sentence(folder: Path, arguments: list[str], says: str) -> None:
    done = coreason_here("serve", "--port", "0", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {says}")
    assert done.stderr.count("\n") == 1


def test_a_whole_group_is_not_an_agent(folder: Path) -> None:
    (folder / "group_here.py").write_text(
        "from coreason_client.server import AgentApp, AgentGroup\n"
        "async def agent(request, stream): ...\n"
        "app = AgentGroup([AgentApp(agent)])\n"
    )
    done = coreason_here("serve", "--port", "0", "group_here:app")
    assert done.stderr.startswith("error: group_here:app is an AgentGroup, which has its own log")


def test_other_tools_are_refused() -> None:
    done = coreason_here("serve", "--openai-tools", "call")
    assert done.returncode == 2
    assert "'ignore', 'refuse'" in done.stderr


def test_the_help_has_the_options_of_the_api_below_a_heading() -> None:
    text = CliRunner().invoke(app, ["serve", "--help"]).stdout
    assert "serve [OPTIONS] [MODULE:AGENT]..." in text
    _, _, rest = text.partition("The OpenAI-compatible API:\n")
    options, _, _ = rest.partition("\n\n")
    assert re.findall(r"^ +(--[a-z-]+)", options, re.MULTILINE) == [
        "--openai",
        "--openai-tools",
        "--openai-header",
    ]


def test_the_announcement_names_every_address() -> None:
    options = ServeOptions(agents=["m:a", "m:b"], page=True, a2a=True, openai=True)
    text = banner(options, "http://h:1/p", None, ["m.a", "m.b"])
    assert text.startswith(
        "Serving m:a and m:b at http://h:1/p, streams are stored in memory. "
        "Open http://h:1/p/m.a/ or http://h:1/p/m.b/ in a browser. "
        "The A2A cards are http://h:1/p/m.a/.well-known/agent-card.json and "
        "http://h:1/p/m.b/.well-known/agent-card.json. "
        "OpenAI API at http://h:1/p/v1, models m.a and m.b. "
        "Press Ctrl-C to stop. Try:\n\ncurl -N http://h:1/p/m.a/assist "
    )
    one = banner(ServeOptions(openai=True, public_url="https://a.example/"), "u", None, ["guide"])
    assert "OpenAI API at https://a.example/v1, model guide. " in one


COMMAND = ["serve", "pets_here:cat", "pets_here:dog", "--openai"]


def served_at(process: Process) -> str:
    printed = process.expect("}'\n")
    [url] = re.findall(r"at (http://[^\s,]+),", printed)[:1]
    return str(url)


def test_both_agents_continue_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / "pets_here.py").write_text(AGENTS)
    command = [*COMMAND, "--durable", "--store", "sqlite:pets.db", "--port"]
    with Process(*command, "0", cwd=tmp_path) as process:
        url = served_at(process)
        with (
            CAPClient(f"{url}/pets_here.cat", "any", max_retries=100) as cat,
            CAPClient(f"{url}/pets_here.dog", "any", max_retries=100) as dog,
            cat.chat("wait") as first,
            dog.chat("wait") as second,
        ):
            assert (next(first), next(second)) == ("meow wait ", "woof wait ")
            process.signal(signal.SIGKILL)
            process.end()
            (tmp_path / "go").touch()
            with Process(*command, url.rpartition(":")[2], cwd=tmp_path) as again:
                again.expect("}'\n")
                assert ("".join(first), "".join(second)) == ("done", "done")
                again.signal(signal.SIGINT)
                assert again.end() == 0
                assert "Traceback" not in again.errors


def test_a_change_of_any_agent_restarts_them(tmp_path: Path) -> None:
    (tmp_path / "pets_here.py").write_text(AGENTS)
    (tmp_path / "other_here.py").write_text(AGENTS.replace("woof", "wuff"))
    arguments = ["serve", "pets_here:dog", "other_here:dog", "--openai", "--reload", "--port", "0"]
    with Process(*arguments, cwd=tmp_path) as process:
        url = served_at(process)
        with client(f"{url}/v1") as made:
            assert ask(made, "pets_here.dog") == "woof hi done"
            assert ask(made, "other_here.dog") == "wuff hi done"
        replace(tmp_path / "other_here.py", "def dog(")
        process.expect_error("module other_here cannot be imported: SyntaxError")
        replace(tmp_path / "other_here.py", AGENTS.replace("woof", "growl"))
        with client(f"{url}/v1") as made:  # the socket stays open meanwhile
            assert ask(made, "other_here.dog") == "growl hi done"
        process.signal(signal.SIGTERM)
        assert process.end() == 0


def test_any_worker_serves_the_responses_of_any_agent(tmp_path: Path) -> None:
    (tmp_path / "pets_here.py").write_text(AGENTS)
    with ValkeyServer() as store:
        env = {"COREASON_STORE": store.url, "COREASON_API_KEYS": "one,two"}
        arguments = ["serve", "pets_here:process", "pets_here:dog", "--openai", "--port", "0"]
        with Process(*arguments, "--workers", "2", env=env, cwd=tmp_path) as process:
            url = f"{served_at(process)}/v1"
            served: set[str] = set()
            found = ""
            for _ in range(200):
                with client(url, "one") as made:
                    answer = made.responses.create(model="pets_here.process", input="hi")
                with client(url, "one") as made:  # another connection, perhaps of the other worker
                    assert made.responses.retrieve(answer.id).output_text == answer.output_text
                served.add(answer.output_text)
                found = answer.id
                if len(served) == 2:
                    break
            assert len(served) == 2
            with client(url, "two") as made, pytest.raises(openai.NotFoundError):
                made.responses.retrieve(found)
            process.signal(signal.SIGTERM)
            assert process.end() == 0
