"""Saved conversations: continued, listed, searched and deleted by the command."""

import json
import os
import re
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coreason_client.cli.exits import Failure
from coreason_client.cli.llm import _history, _store
from coreason_client.cli.llm._history import SavedConversation, without_query
from coreason_client.cli.llm._store import ConversationStore, StoreError
from coreason_client.cli.llm._turns import SavedTurn
from tests.llm.server import Received, Replied

from .command import PATIENCE, Process, coreason_here
from .models import KEY, MODEL, Model, answer, chunk, model, streamed

ID = r"[0-9a-f]{16}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def run(served: Model, data: Path, *arguments: str, **env: str) -> tuple[int, str, str]:
    given = {**served.env, "XDG_DATA_HOME": str(data), **env}
    done = coreason_here("llm", *arguments, env=given)
    assert KEY not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def file(data: Path) -> Path:
    return data / "coreason" / "conversations.db"


def listed(served: Model, data: Path, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = run(served, data, "logs", "--json", *arguments)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_the_last_conversation_continues_with_its_model_and_system_prompt(data: Path) -> None:
    with model(answer("Blue."), answer("Red."), answer("Green."), answer("None.")) as served:
        assert run(served, data, "-m", MODEL, "-s", "Be brief.", "The", "sky?")[:2] == (
            0,
            "Blue.\n",
        )
        assert run(served, data, "-c", "And at night?") == (0, "Red.\n", "")
        assert served.sent() == [
            ("system", "Be brief."),
            ("user", "The sky?"),
            ("assistant", "Blue."),
            ("user", "And at night?"),
        ]
        assert served.received[-1].json["model"] == MODEL
        assert run(served, data, "-m", "gpt-4o-mini", "Grass?")[0] == 0
        [newest, oldest] = listed(served, data)
        assert (newest["question"], newest["turns"], newest["model"]) == (
            "Grass?",
            1,
            "gpt-4o-mini",
        )
        assert (oldest["question"], oldest["turns"]) == ("The sky?", 2)
        chosen = oldest["conversation"][:8]
        assert run(served, data, "--cid", chosen, "-s", "Be long.", "Why?")[0] == 0
        assert [role for role, _ in served.sent()] == ["system", *["user", "assistant"] * 2, "user"]
        assert served.sent()[0] == ("system", "Be long.")
        assert [one["turns"] for one in listed(served, data)] == [3, 1]
    assert KEY.encode() not in file(data).read_bytes()


def test_a_turn_has_its_messages_tokens_and_cost(data: Path) -> None:
    with model(answer("Bl", "ue.")) as served:
        run(served, data, "-m", MODEL, "The sky?")
        [summary] = listed(served, data)
        [turn] = listed(served, data, "--cid", summary["conversation"][:4])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", turn["time"])
    assert turn["usage"]["total_tokens"] == 29
    assert turn["usage"]["cost_estimate"] > 0
    assert (turn["complete"], turn["model"], turn["base_url"]) == (True, MODEL, served.url)
    assert [(one["role"], one["content"]) for one in turn["messages"]] == [
        ("user", "The sky?"),
        ("assistant", "Blue."),
    ]


@pytest.mark.parametrize(
    ("arguments", "env"), [(["--no-log"], {}), ([], {"COREASON_LLM_NO_LOG": "1"})]
)
def test_saving_can_be_switched_off(data: Path, arguments: list[str], env: dict[str, str]) -> None:
    with model(answer("Blue.")) as served:
        assert run(served, data, *arguments, "The sky?", **env) == (0, "Blue.\n", "")
        assert not data.exists()
        run(served, data, "The sky?")
        assert run(served, data, *arguments, "-c", "Why?", **env)[0] == 0
        assert len(served.sent()) == 3
        assert [one["turns"] for one in listed(served, data)] == [1]


def test_an_attachment_is_kept_even_if_its_file_changes(data: Path, tmp_path: Path) -> None:
    content = b"\x89PNG\r\n\x1a\n" + os.urandom(500)
    (tmp_path / "a.png").write_bytes(content)
    with model(answer("A cat.")) as served:
        assert run(served, data, "-a", str(tmp_path / "a.png"), "What?")[0] == 0
        [(_, sent)] = served.sent()
        (tmp_path / "a.png").unlink()
        assert run(served, data, "-c", "Sure?")[0] == 0
        assert served.sent()[0] == ("user", sent)
        assert sent[0]["image_url"]["url"].startswith("data:image/png;base64,")
        code, out, _ = run(served, data, "logs", "--cid", listed(served, data)[0]["conversation"])
    assert code == 0
    assert "> [image/png]\n> What?\n" in out
    assert content[-100:] in file(data).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-c", "Why?"], "--continue: there is no saved conversation yet"),
        (["--cid", "ab", "Why?"], "--cid: there is no conversation 'ab'; coreason llm logs lists"),
        (["--cid", "", "Why?"], "--cid must not be empty"),
        (["-c", "--cid", "ab", "Why?"], "--continue and --cid cannot be used together"),
        (["logs", "--cid", "ab"], "--cid: there is no conversation 'ab'"),
        (["logs", "--delete", "ab"], "--delete: there is no conversation 'ab'"),
        (["logs", "--delete", "ab", "--cid", "ab"], "--cid and --delete cannot be used together"),
        (["logs", "-n", "-1"], "-n must be 0 or more, got -1"),
    ],
)
def test_a_conversation_that_is_not_there_is_wrong_usage(
    data: Path, arguments: list[str], says: str
) -> None:
    with model(answer("Blue.")) as served:
        code, out, err = run(served, data, *arguments)
    assert (code, out, served.received) == (2, "", [])
    assert re.fullmatch(f"error: {says}.*\n", err)


def test_a_conversation_does_not_move_to_another_api_unnoticed(data: Path) -> None:
    with model(answer("Blue.")) as served, model(answer("Red.")) as other:
        run(served, data, "-m", MODEL, "The sky?")
        code, _, err = run(served, data, "-c", "Why?", LLM_API_BASE_URL=other.url)
        assert (code, other.received) == (2, [])
        assert f"was held at {served.url} and would continue at {other.url}" in err
        assert run(served, data, "-c", "Why?", "--base-url", served.url)[0] == 0
        assert run(other, data, "-c", "-m", MODEL, "Why?")[0] == 0
        assert len(other.sent()) == 5


# What was not completed


def test_ctrl_c_keeps_the_text_and_names_the_command_that_continues(data: Path) -> None:
    begun = streamed([chunk(content="begun ")], hold=True)
    with model(begun, answer("ended.")) as served:
        env = {**served.env, "XDG_DATA_HOME": str(data)}
        arguments = ["llm", "--model", MODEL, "--base-url", f"{served.url}/v1", "Write."]
        with Process(*arguments, env=env) as process:
            process.expect("begun ")
            process.signal(signal.SIGINT)
            assert process.end() == 130
            line = process.errors
        match = re.fullmatch(
            rf"To continue this conversation: coreason llm --cid ({ID}) --base-url (\S+)\n", line
        )
        assert match is not None
        assert match[2] == f"{served.url}/v1"
        code, out, _ = run(served, data, "--cid", match[1], "--base-url", match[2], "Go on.")
        assert (code, out) == (0, "ended.\n")
        assert served.sent() == [("user", "Write."), ("assistant", "begun "), ("user", "Go on.")]
        [first, second] = listed(served, data, "--cid", match[1])
    assert (first["complete"], second["complete"]) == (False, True)


def test_ctrl_c_before_the_first_word_saves_nothing(data: Path) -> None:
    asked = threading.Event()

    def reply(_: Received) -> Replied:
        asked.set()
        return streamed([], hold=True)

    with model() as served:
        served.provider.reply = reply
        env = {**served.env, "XDG_DATA_HOME": str(data)}
        with Process("llm", "--model", MODEL, "Hi", env=env) as process:
            assert asked.wait(PATIENCE)
            process.signal(signal.SIGINT)
            assert process.end() == 130
            assert process.errors == ""
    assert not data.exists()


def test_what_came_before_it_broke_is_saved(data: Path) -> None:
    cut = streamed([chunk(content="Hel"), chunk(content="lo")], cut=True)
    with model(cut, answer("Bye.")) as served:
        assert run(served, data, "-m", MODEL, "Hi")[:2] == (3, "Hello\n")
        assert run(served, data, "-c", "Again")[0] == 0
        assert served.sent()[:2] == [("user", "Hi"), ("assistant", "Hello")]
        [one] = listed(served, data)
        [first, _] = listed(served, data, "--cid", one["conversation"])
    assert not first["complete"]


# A file that cannot be used


def break_it(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database" * 100)


def test_a_broken_file_costs_a_warning_and_not_the_answer(data: Path) -> None:
    break_it(file(data))
    with model(answer("Blue.")) as served:
        code, out, err = run(served, data, "The sky?")
        assert (code, out) == (0, "Blue.\n")
        assert err == (
            f"warning: the conversation is not saved: {file(data)}: file is not a database\n"
        )
        for arguments in (["-c", "Why?"], ["--cid", "a", "Why?"], ["logs"]):
            code, out, err = run(served, data, *arguments)
            assert (code, out) == (1, "")
            assert err == f"error: {file(data)}: file is not a database\n"
        assert len(served.received) == 1


def test_a_locked_file_costs_a_warning_and_not_the_answer(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_store, "LOCK_TIMEOUT", 0.05)
    with model(answer("Blue.")) as served:
        run(served, data, "The sky?")
        with closing(sqlite3.connect(file(data), isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            code, out, err = run(served, data, "The sky?")
        assert (code, out) == (0, "Blue.\n")
        assert re.fullmatch("warning: the conversation is not saved: .*: database is locked\n", err)


def test_an_unknown_home_directory_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(StoreError, match="home directory"):
        _history.default_store()
    assert not SavedConversation("c", (), saves=True).save(model="m", messages=[])


# The list


def test_the_list_is_limited_and_searched(data: Path) -> None:
    with model(answer("Blue."), answer("Green.")) as served:
        for question in ("The sky?", "Grass?", "Leaves?"):
            run(served, data, "-m", MODEL, question)
        code, out, err = run(served, data, "logs", "-n", "2")
        assert code == 0
        rows = [line.split("\t") for line in out.splitlines()]
        assert [row[2:] for row in rows] == [
            [MODEL, "1 turn", "Leaves?"],
            [MODEL, "1 turn", "Grass?"],
        ]
        assert all(re.fullmatch(ID, row[0]) for row in rows)
        assert err == "there are more conversations than -n 2\n"
        assert len(listed(served, data, "-n", "0")) == 3
        assert [one["question"] for one in listed(served, data, "-q", "BLUE")] == ["The sky?"]
        code, out, err = run(served, data, "logs", "-q", "purple")
        assert (code, out) == (0, "")
        assert err == f"no conversations with this text in {file(data)}\n"


def test_a_conversation_is_shown_in_full_and_deleted(data: Path) -> None:
    with model(answer("Blue \x1b[2Jsky."), answer("Red.")) as served:
        run(served, data, "-m", MODEL, "The\nsky?")
        run(served, data, "-c", "At night?")
        [one] = listed(served, data)
        code, out, err = run(served, data, "logs", "--cid", one["conversation"])
        assert (code, err) == (0, "")
        time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  gpt-4o: 19 \+ 10 tokens, \$0\.\d{6}"
        assert re.fullmatch(
            f"{time}\n\n> The\n> sky\\?\n\nBlue sky.\n\n{time}\n\n> At night\\?\n\nRed.\n", out
        )
        code, out, err = run(served, data, "logs", "--cid", one["conversation"], "-n", "1")
        assert (out.count("tokens"), err) == (1, "there are more turns than -n 1\n")
        code, out, err = run(served, data, "logs", "--cid", one["conversation"], "-q", "purple")
        assert (code, out, err) == (0, "", "no turns with this text\n")
        code, out, err = run(served, data, "logs", "--delete", one["conversation"][:6])
        assert (code, out, err) == (0, "", f"deleted {one['conversation']}\n")
        assert run(served, data, "logs") == (0, "", f"no conversations in {file(data)}\n")
        assert run(served, data, "-c", "Why?")[0] == 2


def test_a_base_url_is_stored_without_its_query() -> None:
    assert without_query("https://x.example/v1?key=secret") == "https://x.example/v1"
    assert without_query(None) is None


def test_an_ambiguous_prefix_is_an_error(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path / "a.db")
    for name in ("ab1", "ab2"):
        store.save(SavedTurn(conversation=name, time="", model="m", messages=[]))
    assert _history.find_conversation(store, "ab1") == "ab1"
    with pytest.raises(Failure, match="2 conversations begin with 'ab': ab1, ab2"):
        _history.find_conversation(store, "ab")
