"""The file with the saved conversations: its content, its permissions, its failures."""

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from base64 import b64encode
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coreason_client.cli.llm._store import ConversationStore, StoreError
from coreason_client.cli.llm._turns import SavedTurn, Summary

IMAGE = os.urandom(1000)


def turn(
    conversation: str = "c1", question: str = "Why?", answer: str = "So.", **more: Any
) -> SavedTurn:
    fields: dict[str, Any] = {"time": "2026-01-31T20:00:01Z", "model": "gpt-4o", **more}
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer, "tool_calls": []},
    ]
    return SavedTurn(conversation=conversation, **{"messages": messages, **fields})


def with_image(conversation: str) -> SavedTurn:
    url = f"data:image/png;base64,{b64encode(IMAGE).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    return replace(turn(conversation), messages=[{"role": "user", "content": content}])


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    return ConversationStore(tmp_path / "data" / "coreason" / "conversations.db", lock_timeout=0.05)


def test_turns_come_back_in_their_order(store: ConversationStore) -> None:
    full = turn(
        provider="openai",
        base_url="http://x.example",
        system="Be brief.",
        usage={"prompt_tokens": 1, "completion_tokens": 2, "cost_estimate": 0.5},
        seconds=1.5,
        complete=False,
    )
    saved = [full, turn("c2"), turn(question="Lone \ud800 surrogate, null \0")]
    for one in saved:
        store.save(one)
    assert store.turns("c1") == [saved[0], saved[2]]
    assert store.turns("c2") == [saved[1]]
    assert store.turns("c") == []


def test_the_conversation_of_the_latest_turn_is_the_first(store: ConversationStore) -> None:
    for one in (
        turn("c1", "First", time="t9", model="old"),
        turn("c2", "Second", time="t1"),
        turn("c1", "Third", time="t0", model="new"),
    ):
        store.save(one)
    assert store.conversations(5) == [
        Summary("c1", "t0", "new", 2, "First"),
        Summary("c2", "t1", "gpt-4o", 1, "Second"),
    ]
    assert [one.conversation for one in store.conversations(1)] == ["c1"]
    assert len(store.conversations(-1)) == 2
    assert store.models() == ["gpt-4o", "new", "old"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("why", ["c1"]),
        ("ÄRGER", ["c2"]),
        ("100%", ["c2"]),
        ("o", ["c2", "c1"]),
        ("_", []),
        ("'", []),
        ("a\nb", ["c2"]),
    ],
)
def test_a_text_is_found_in_questions_and_answers(
    store: ConversationStore, text: str, found: list[str]
) -> None:
    store.save(turn("c1", "Why?", "So."))
    store.save(turn("c2", "100% a\nb", "Oh, ärger."))
    assert [one.conversation for one in store.conversations(-1, text)] == found


def test_ids_are_found_by_their_beginning(store: ConversationStore) -> None:
    for name in ("ab1", "ab2", "AB3", "a%", "b"):
        store.save(turn(name))
    assert store.ids("ab", 9) == ["ab1", "ab2"]
    assert store.ids("ab", 1) == ["ab1"]
    assert store.ids("a%", 9) == ["a%"]
    assert store.ids("_", 9) == []


def test_an_attachment_is_stored_once_and_deleted_with_its_last_conversation(
    store: ConversationStore,
) -> None:
    for name in ("c1", "c2"):
        store.save(with_image(name))
    content = store.path.read_bytes()
    assert store.turns("c1") == [with_image("c1")]
    assert content.count(IMAGE[:100]) == 1
    assert b64encode(IMAGE)[:100] not in content
    store.delete("c1")
    assert store.turns("c1") == []
    assert store.turns("c2") == [with_image("c2")]
    store.delete("c2")
    assert IMAGE[:100] not in store.path.read_bytes()


def test_deleted_text_is_overwritten(store: ConversationStore) -> None:
    store.save(turn("c1", "a secret plan"))
    store.save(turn("c2"))
    assert b"a secret plan" in store.path.read_bytes()
    store.delete("c1")
    assert b"a secret plan" not in store.path.read_bytes()
    assert [one.conversation for one in store.conversations(9)] == ["c2"]


def test_before_the_first_turn_there_is_nothing_not_even_a_file(store: ConversationStore) -> None:
    assert (store.turns("c"), store.conversations(9), store.ids("", 9), store.models()) == (
        [],
        [],
        [],
        [],
    )
    assert not store.path.parent.exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("exists", [True, False])
def test_only_the_owner_can_read_the_file_and_its_directory(
    store: ConversationStore, exists: bool
) -> None:
    before = os.umask(0)
    try:
        if exists:
            store.path.parent.mkdir(parents=True)
            store.path.touch()
        store.save(turn())
    finally:
        os.umask(before)
    assert (mode(store.path.parent), mode(store.path)) == (0o700, 0o600)


def save_fails(store: ConversationStore, says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught:
        store.save(turn())
    assert str(caught.value).startswith(f"{store.path}: ")


def test_a_file_that_is_no_database_is_left_alone(store: ConversationStore) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.write_bytes(b"my notes" * 100)
    save_fails(store, "file is not a database")
    with pytest.raises(StoreError, match="file is not a database"):
        store.conversations(1)
    assert store.path.read_bytes() == b"my notes" * 100


def test_a_file_of_a_newer_version_is_left_alone(store: ConversationStore) -> None:
    store.save(turn())
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA user_version = 99")
    save_fails(store, r"a newer version of coreason has written it \(format 99\)")


def test_a_damaged_turn_is_an_error(store: ConversationStore) -> None:
    store.save(turn())
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE turns SET messages = '{'")
    with pytest.raises(StoreError, match="a turn is damaged"):
        store.turns("c1")


def test_a_turn_that_is_not_json_is_an_error(store: ConversationStore) -> None:
    with pytest.raises(StoreError, match=r"a turn is damaged: .*not JSON serializable"):
        store.save(turn(usage={"prompt_tokens": object()}))


def test_a_locked_file_is_not_waited_for_forever(store: ConversationStore) -> None:
    store.save(turn())
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        save_fails(store, "database is locked")
    store.save(turn())
    assert len(store.turns("c1")) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    save_fails(ConversationStore(tmp_path / "a" / "b.db"), "Permission denied")


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    save_fails(ConversationStore(tmp_path / "a" / "b.db"), "exists|Not a directory")


def test_a_python_without_sqlite_is_an_error(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    save_fails(store, "this Python has no sqlite3")


SAVE_MANY = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from coreason_client.cli.llm._store import ConversationStore
    from coreason_client.cli.llm._turns import SavedTurn

    # On a slow disk, a writer that goes on at once has the lock most of the time.
    store = ConversationStore(Path(sys.argv[1]), lock_timeout=30.0)
    sys.stdin.read()
    for number in range(20):
        message = {"role": "user", "content": f"{sys.argv[2]} {number}"}
        store.save(SavedTurn(conversation=sys.argv[2], time="", model="m", messages=[message]))
    """
)


def test_processes_that_save_at_the_same_time_lose_nothing(store: ConversationStore) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE_MANY, str(store.path), name], stdin=subprocess.PIPE
        )
        for name in ("a", "b", "c")
    ]
    for writer in writers:  # all start with an empty directory
        assert writer.stdin is not None
        writer.stdin.close()
    assert [writer.wait(45) for writer in writers] == [0, 0, 0]
    for name in ("a", "b", "c"):
        assert [one.question for one in store.turns(name)] == [f"{name} {n}" for n in range(20)]
