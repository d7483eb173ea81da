"""`coreason llm`, and a model behind `chat` and `serve`, against a provider on loopback."""

import json
import os
import re
import signal
from base64 import b64encode
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coreason_client.cli._app import app
from coreason_client.testing import ModelTurn, fake_model, virtual_clock
from coreason_manifest.definitions.presentation import ClosePacket, EventPacket, parse_packet
from tests.llm.server import Replied

from .command import MODEL_VARIABLES, Process, coreason_here, shown
from .models import KEY, MODEL, Held, Model, answer, chunk, model, spoken, streamed
from .session import Session

USAGE_LINE = r"gpt-4o: 19 \+ 10 tokens, \$0\.\d{6}"


def refusal(status: int) -> Replied:
    return Replied(status, body=b'{"error": {"message": "No such luck."}}')


def ask(served: Model, *arguments: str, **env: str) -> tuple[int, str, str]:
    done = coreason_here("llm", "--model", MODEL, *arguments, env={**served.env, **env})
    assert KEY not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


# `coreason llm`


def test_the_text_comes_while_the_model_still_writes(tmp_path: Path) -> None:
    held = Held([chunk(content="first ")], spoken("second"))
    with model(streamed(held)) as served:
        arguments = ["llm", "--model", MODEL, "Hi"]
        with Process(*arguments, env=served.env, cwd=tmp_path, fresh=True) as process:
            process.expect("first ")
            assert not held.let_go.is_set()
            held.let_go.set()
            assert process.end() == 0
            assert (process.text, process.errors) == ("second\n", "")
    assert served.sent() == [("user", "Hi")]


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"LLM_API_KEY={KEY}\nDEFAULT_MODEL=gpt-4o-mini\n")
    with model(answer("Yes.")) as served:
        options = ["--system", "Be brief.", "--temperature", "0", "--max-tokens", "7"]
        options += ["--base-url", served.url]
        done = coreason_here("llm", *options, stdin="Is it?\n", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Yes.\n", "")
    assert served.sent() == [("system", "Be brief."), ("user", "Is it?")]
    body = served.received[0].json
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("gpt-4o-mini", 0, 7)
    assert served.received[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_json_is_the_response_object(how: str) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Ja: ü"}}
    body = json.dumps({"choices": [{**choice, "finish_reason": "stop"}]}).encode()
    with model(answer("Ja: ", "ü") if how == "--stream" else Replied(body=body)) as served:
        code, out, err = ask(served, how, "--json", "Hi")
    assert (code, err, out.count("\n")) == (0, "", 1)
    response = json.loads(out)
    assert (response["status"], response["data"]["content"]) == ("success", "Ja: ü")
    assert bool(served.received[0].json.get("stream")) is (how == "--stream")


def test_words_need_no_quotes_and_piped_text_follows_them() -> None:
    with model(answer("Yes.")) as served:
        for arguments in (["what", "is", "SSE"], ["-m", MODEL, "what", "-t", "0", "is", "SSE"]):
            assert ask(served, *arguments) == (0, "Yes.\n", "")
            assert served.sent() == [("user", "what is SSE")]
        done = coreason_here("llm", "summarise", "this", stdin="a file\n", env=served.env)
        assert (done.returncode, done.stdout) == (0, "Yes.\n")
        assert served.sent() == [("user", "summarise this\n\na file")]


def test_stdin_can_be_an_attachment(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    with model(answer("Yes.")) as served:
        arguments = ["llm", "-m", MODEL, "-a", "-", "-a", str(tmp_path / "a.py")]
        for words in (["Same?"], []):
            done = coreason_here(*arguments, *words, stdin="%PDF-1.7", env=served.env)
            assert (done.returncode, done.stdout, done.stderr) == (0, "Yes.\n", "")
            [(_, [pdf, *texts])] = served.sent()
            assert pdf["file"]["filename"] == "stdin.pdf"
            assert pdf["file"]["file_data"].startswith("data:application/pdf;base64,")
            assert [part["text"] for part in texts] == ["File a.py:\n\nx = 1", *words]
        done = coreason_here(*arguments, "Same?", "-", stdin="%PDF-1.7", env=served.env)
    assert done.returncode == 2
    assert "stdin is already the attachment" in done.stderr


def test_an_answer_that_is_not_streamed_is_printed_as_well() -> None:
    choice = {"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    with model(Replied(body=json.dumps({"choices": [choice]}).encode())) as served:
        assert ask(served, "--no-stream", "Hi") == (0, "Yes.\n", "")


@pytest.mark.parametrize("how", [(), ("--no-stream",), ("--json",)])
def test_the_sources_of_an_answer_are_listed_below_it(how: tuple[str, ...]) -> None:
    turn = ModelTurn(
        "It rains.",
        citations=[
            {"url": "https://w.example", "title": "W\x1b[2J"},
            {"url": "https://w.example", "title": "again"},
            {"url": "https://v.example"},
        ],
    )
    with fake_model(turn) as fake:
        done = coreason_here("llm", *how, "-m", "gpt-4o", "Rain?", env=fake.environment())
    if how == ("--json",):
        assert len(json.loads(done.stdout)["data"]["citations"]) == 3
        return
    listed = "Sources:\n[1] W: https://w.example\n[2] https://v.example: https://v.example\n"
    assert (done.returncode, done.stdout) == (0, f"It rains.\n\n{listed}")


def test_v_tells_what_it_used_and_an_answer_that_is_cut_off_says_so_anyway() -> None:
    with model(answer("Ye", finish="length")) as served:
        code, out, err = ask(served, "-v", "Hi")
        assert (code, out) == (0, "Ye\n")
        assert re.search(f"^{USAGE_LINE}$", err, re.MULTILINE)
        code, out, err = ask(served, "Hi")
    assert (code, out) == (0, "Ye\n")
    assert re.fullmatch("warning: the answer is truncated.*--max-tokens.*\n", err)


def test_what_a_filter_took_away_is_told() -> None:
    with model(answer("Ye", finish="content_filter")) as served:
        code, out, err = ask(served, "Hi")
    assert (code, out) == (0, "Ye\n")
    assert re.fullmatch("warning: the provider's content filter .*\n", err)


def test_a_terminal_sees_markdown_and_what_it_used() -> None:
    with (
        model(answer("So **bold**", " it is.")) as served,
        Process("llm", "--model", MODEL, "Hi", env=served.env, terminal=True) as process,
    ):
        assert process.end() == 0
        text = shown(process.text)
    assert "So bold it is." in text
    assert re.search(USAGE_LINE, text)


def test_a_question_can_be_typed() -> None:
    with (
        model(answer("Yes.")) as served,
        Process("llm", "--model", MODEL, env=served.env, terminal=True) as process,
    ):
        process.expect("Ctrl-D")
        process.send("Is it?\n\x04")
        process.expect("Yes.")
        assert process.end() == 0
    assert served.sent() == [("user", "Is it?")]


def test_a_dumb_terminal_sees_the_text_as_it_is() -> None:
    with (
        model(answer("So **bold**\x1b[2J")) as served,
        Process(
            *("llm", "--model", MODEL, "Hi"), env={**served.env, "TERM": "dumb"}, terminal=True
        ) as process,
    ):
        assert process.end() == 0
        assert "So **bold**" in process.text
        assert "2J" not in process.text
        assert "\x1b" not in process.text


def test_ctrl_c_stops_at_once_and_closes_the_connection() -> None:
    with (
        model(streamed([chunk(content="begun ")], hold=True)) as served,
        Process("llm", "--model", MODEL, "Hi", env=served.env) as process,
    ):
        process.expect("begun ")
        process.signal(signal.SIGINT)
        assert served.was_left()
        assert process.end() == 130
        assert process.text == "\n"
        assert re.fullmatch(
            "To continue this conversation: coreason llm --cid .*\n", process.errors
        )


def test_a_reader_that_goes_away_is_no_drama() -> None:
    held = Held([chunk(content="begun ")], spoken(*["more"] * 50))
    with (
        model(streamed(held)) as served,
        Process("llm", "--model", MODEL, "Hi", env=served.env) as process,
    ):
        process.expect("begun ")
        process.hang_up()
        held.let_go.set()
        assert process.end() == 141
        assert process.errors == ""


# How it ends


@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        (refusal(401), 1, "answered 401 for model gpt-4o: No such luck."),
        (refusal(400), 1, "answered 400"),
        (refusal(500), 1, "answered 500"),
        (Replied(body=b"<html>"), 4, "a web page"),
        (Replied(silent=True), 3, "no answer"),
        (streamed([], cut=True), 3, "no answer"),
    ],
)
def test_an_error_has_its_exit_code(reply: Replied, code: int, says: str) -> None:
    with model(reply) as served:
        done = ask(served, "Hi", AI_TIMEOUT="1.5")
    assert done[:2] == (code, "")
    assert re.fullmatch(f"error: .*{says}.*\n", done[2])


def test_what_came_before_it_broke_is_printed() -> None:
    with model(streamed([chunk(content="Hel"), chunk(content="lo")], cut=True)) as served:
        code, out, err = ask(served, "Hi")
    assert (code, out) == (3, "Hello\n")
    assert re.fullmatch("error: the connection broke in the middle of the answer.*\n", err)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any key."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(MODEL_VARIABLES) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    return monkeypatch


NO_KEY = (
    r"error: there is no key for https://api\.openai\.com/v1: set LLM_API_KEY, or pass api_key "
    r"in Python code\n"
)


@pytest.mark.parametrize(
    "arguments",
    [["llm", "Hi"], ["chat", "--llm", MODEL, "Hi"], ["serve", "--llm", MODEL, "--port", "0"]],
)
def test_a_missing_key_is_one_sentence(alone: pytest.MonkeyPatch, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert re.fullmatch(NO_KEY, result.stderr)
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        (["llm", "--temperature", "7", "Hi"], {}, "--temperature must be .*, got 7.0"),
        (["llm", "--max-tokens", "0", "Hi"], {}, "--max-tokens must be a whole number"),
        (["llm", "--model", "", "Hi"], {}, "model must be the name of a model"),
        (["llm", "--base-url", "here", "Hi"], {}, "--base-url must start with http://"),
        (["llm", "Hi"], {"AI_TIMEOUT": "soon"}, "AI_TIMEOUT must be .*, in the environment"),
        (["llm", "Hi"], {"LLM_API_BASE_URL": "here"}, "LLM_API_BASE_URL must start with http://"),
        (["llm"], {}, "nothing to ask"),
        (["chat", "--llm", "", "Hi"], {}, "model must be the name of a model"),
        (["chat", "--llm", "azure/x", "Hi"], {}, "no default base URL: set LLM_API_BASE_URL"),
        (["serve", "--llm", MODEL], {"MAX_RETRIES": "-1"}, "MAX_RETRIES must be .*, in the env"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_sent(
    alone: pytest.MonkeyPatch, arguments: list[str], env: dict[str, str], says: str
) -> None:
    for name, value in {"LLM_API_KEY": KEY, **env}.items():
        alone.setenv(name, value)
    result = CliRunner().invoke(app, arguments)
    assert re.fullmatch(f"error: .*{says}.*\n", result.stderr)
    assert (result.exit_code, result.stdout) == (2, "")


# `coreason chat --llm`


def test_a_model_can_be_talked_to_and_knows_what_was_said(tmp_path: Path) -> None:
    with (
        model(answer("Blue."), answer("Red.")) as served,
        Session(
            *("chat", "--llm", MODEL, "--system", "Be brief."),
            env={**served.env, "COREASON_URL": "http://127.0.0.1:1"},
            cwd=tmp_path,
        ) as talk,
    ):
        talk.sees("Talking to gpt-4o.")
        talk.say("The sky?")
        talk.sees("Blue.")
        talk.say("And at night?")
        assert re.search(USAGE_LINE, talk.emulator.text)
        talk.sees("Red.")
        talk.say("/exit")
        assert talk.end() == 0
    assert served.sent() == [
        ("system", "Be brief."),
        ("user", "The sky?"),
        ("assistant", "Blue."),
        ("user", "And at night?"),
    ]
    assert served.provider.connections == 1


def test_a_model_gets_what_is_attached(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n"
    (tmp_path / "cat.png").write_bytes(picture)
    (tmp_path / "notes.md").write_text("# Cats")
    with model(answer("A cat.")) as served:
        options = ["-a", "cat.png", "-a", "notes.md", "-a", "-"]
        done = coreason_here(
            *("chat", "--llm", MODEL, *options, "What?"),
            stdin="%PDF-1.7",
            env=served.env,
            cwd=tmp_path,
        )
    assert (done.returncode, done.stdout) == (0, "A cat.\n")
    [(role, content)] = served.sent()
    assert role == "user"
    assert [part["type"] for part in content] == ["image_url", "text", "file", "text"]
    data = b64encode(picture).decode()
    assert content[0]["image_url"]["url"] == f"data:image/png;base64,{data}"
    assert content[1]["text"] == "File notes.md:\n\n# Cats\n\n"


def test_one_question_to_a_model_through_a_pipe() -> None:
    with model(answer("Bl", "ue.")) as served:
        done = coreason_here("chat", "--llm", MODEL, "The sky?", env=served.env)
        packets = coreason_here("chat", "--llm", MODEL, "--json", "The sky?", env=served.env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Blue.\n", "")
    [*_, usage, last] = [parse_packet(line.encode()) for line in packets.stdout.splitlines()]
    assert isinstance(usage, EventPacket)
    assert usage.p["data"]["total_tokens"] == 29
    assert isinstance(last, ClosePacket)


def test_chaos_asks_the_model_once() -> None:
    words = [f"word{number} " for number in range(100)]
    with model(answer(*words)) as served, virtual_clock():
        done = coreason_here("chat", "--llm", MODEL, "--chaos", "--seed", "2", "Hi", env=served.env)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(
        r"^Resumed after [1-9]\d* cuts?.*nothing lost or duplicated", done.stdout, re.MULTILINE
    )
    assert len(served.received) == 1


def test_who_talks_to_a_model_is_told_what_its_provider_says() -> None:
    with model(refusal(401)) as served:
        done = coreason_here("chat", "--llm", MODEL, "Hi", env=served.env)
    assert done.returncode == 1
    assert re.fullmatch("error: model_authentication: .*401.*No such luck.*\n", done.stderr)
    assert KEY not in done.stderr


def test_ctrl_c_stops_the_model_of_a_chat() -> None:
    with (
        model(streamed([chunk(content="begun ")], hold=True)) as served,
        Process("chat", "--llm", MODEL, "Hi", env=served.env) as process,
    ):
        process.expect("begun ")
        process.signal(signal.SIGINT)
        assert served.was_left()
        assert process.end() == 130
        assert process.errors == ""


# `coreason serve --llm`


def test_a_model_is_served_and_its_errors_tell_readers_nothing_of_the_provider(
    tmp_path: Path,
) -> None:
    arguments = ["serve", "--llm", MODEL, "--system", "Be brief.", "--port", "0"]
    with (
        model(answer("Blue."), refusal(401)) as served,
        Process(*arguments, env=served.env, cwd=tmp_path) as process,
    ):
        told = process.expect("}'\n")
        assert "Serving gpt-4o at" in told
        [url] = re.findall(r"at (http://\S+),", told)
        done = coreason_here("chat", "--url", url, "The sky?")
        assert (done.returncode, done.stdout, done.stderr) == (0, "Blue.\n", "")
        assert served.sent() == [("system", "Be brief."), ("user", "The sky?")]
        done = coreason_here("chat", "--url", url, "The sky?")
        assert done.returncode == 1
        assert done.stderr.startswith("error: model_authentication: The agent has no valid key")
        assert "luck" not in done.stderr
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        assert "No such luck." in process.errors
        assert KEY not in process.errors
