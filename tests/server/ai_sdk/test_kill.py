"""A server that is killed in the middle of answers: after its restart, pages show them whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.preloaded import PROJECT, PipedProcess

from ..openai.cutting import cutting
from ..peer import LIMIT
from .pages import CAPABILITIES, VERSIONS, Pages, pages_of
from .serving import KEY, PACKETS, answers, check_whole, chunks, peer, texts

POINTS = (0, 4, 8, 13, 18, len(PACKETS))


class Replica:
    """A durable server in a separate process, on a file."""

    def __init__(self, log: Path) -> None:
        self._process = PipedProcess(
            ["-m", "tests.server.ai_sdk.replica", str(log)], libraries=PROJECT
        )
        self.url = self._process.line()

    def until_held(self) -> None:
        """Wait until an agent has stopped in the middle of its answer."""
        assert self._process.line() == "held"

    def kill(self) -> None:
        self._process.close(LIMIT)


@contextmanager
def replica(log: Path) -> Iterator[Replica]:
    found = Replica(log)
    try:
        yield found
    finally:
        found.kill()


class Case(NamedTuple):
    """A question to an agent, by a page of one version that names what it knows."""

    pages: Pages
    question: str
    able: list[str]

    @property
    def chat_id(self) -> str:
        """A chat of its own."""
        return f"{self.question} of {self.pages.version} with {len(self.able)}"

    def reload(self, server: Replica, shown: dict[str, Any]) -> dict[str, Any]:
        """Load the page again, with the messages that it had, and resume by the run.

        So an answer that has ended in the meantime is read too.
        """
        options: dict[str, Any] = {"messages": shown["messages"], "run": shown["runs"][0]}
        options["transport"] = {"kind": "run"}
        chat = self.pages.chat(f"{server.url}/api/chat", self.chat_id, key=KEY, **options)
        return chat.resume()


def killed(log: Path, cases: list[Case]) -> list[dict[str, Any]]:
    """Ask, kill the server while all answers are held, and return what the pages show."""
    begun = []
    with replica(log) as first:
        for case in cases:
            options = {"key": KEY, "body": {"capabilities": case.able}}
            chat = case.pages.chat(f"{first.url}/api/chat", case.chat_id, **options)
            begun.append(chat.begin_send(case.question))
            chat.answered(1)
            first.until_held()
        with peer(first.url) as http:
            http.get("/health")  # what was written before has been sent now
        first.kill()
        shown = [sent.result(LIMIT) for sent in begun]
    assert {one["status"] for one in shown} == {"error"}
    return shown


@pytest.mark.timeout(120)
def test_a_server_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    """One kill in the middle of many answers, each of which is held after another packet."""
    log = tmp_path / "log.db"
    cases = [
        Case(pages_of(version), f"Held after {count}", CAPABILITIES[version])
        for version in VERSIONS
        for count in (range(len(PACKETS) + 1) if version == VERSIONS[-1] else POINTS)
    ]
    shown = killed(log, cases)
    with replica(log) as second:
        for case, before in zip(cases, shown, strict=True):
            check_whole(case.reload(second, before))


@pytest.mark.timeout(120)
def test_words_that_were_sent_are_taken_back(tmp_path: Path) -> None:
    """Pages that do not know how get an error: no page shows two texts mixed."""
    log = tmp_path / "log.db"
    newest = pages_of(VERSIONS[-1])
    able = [Case(newest, f"Differs after {count}", ["reset-step"]) for count in (3, 5, 9, 14, 20)]
    others = [Case(pages_of(version), "Differs after 9", []) for version in VERSIONS]
    shown = killed(log, [*able, *others])
    assert all("Void words." in str(one["messages"]) for one in shown)
    with replica(log) as second, peer(second.url) as http:
        for case, before in zip([*able, *others], shown, strict=True):
            after = case.reload(second, before)
            path = f"/api/chat/{before['runs'][0]}/stream"
            raw = http.get(path).content
            kinds = [chunk["type"] for chunk in chunks(raw)]
            if case.able:
                check_whole(after)
                assert kinds.count("reset-step") == 1
            else:
                assert (after["status"], kinds[-2:]) == ("error", ["error", "finish"])
                assert chunks(raw)[-2]["code"] == "producer_lost"
                assert chunks(raw)[-1]["finishReason"] == "error"
            # A transport goes on after the chunk that it has, with the same numbers.
            parts = raw.split(b"\n\n")
            for start in range(0, len(parts) - 2, 7):
                rest = http.get(path, params={"startIndex": start}).content
                assert rest == b"\n\n".join(parts[start:])


def test_a_page_resumes_by_its_chat_while_the_answer_runs_again(
    newest: Pages, tmp_path: Path
) -> None:
    """The same page, at the same address: the connection was lost, and comes back."""
    log = tmp_path / "log.db"
    with replica(log) as first, cutting(first.url) as proxy:
        options: dict[str, Any] = {"key": KEY, "transport": {"kind": "ended"}}
        chat = newest.chat(f"{proxy.url}/api/chat", "again", **options)
        sent = chat.begin_send("Held after 9")
        first.until_held()
        first.kill()
        assert sent.result(LIMIT)["status"] == "error"
        with replica(log) as second:
            proxy.route_to(second.url)
            check_whole(chat.resume())


def test_the_call_of_a_question_is_the_valid_one(newest: Pages, tmp_path: Path) -> None:
    """The first run has called the tool with other arguments, which are void."""
    log, able = tmp_path / "log.db", CAPABILITIES[newest.version]
    case = Case(newest, "Ask 1", able)
    [shown] = killed(log, [case])
    with replica(log) as second:
        asked = case.reload(second, shown)
        [message] = answers(asked)
        [part] = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
        assert (part["input"], part["state"]) == ({"attempt": 2}, "approval-requested")
        options: dict[str, Any] = {"key": KEY, "body": {"capabilities": able}}
        api, messages = f"{second.url}/api/chat", asked["messages"]
        chat = newest.chat(api, case.chat_id, messages=messages, **options)
        chat.approve(part["approval"]["id"], approved=True)
        assert texts(chat.send())[-1] == "May I?delete 2"
