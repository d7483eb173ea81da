"""The conversation that an id means, and where it may continue."""

import re
from typing import Any

import pytest

from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.llm._history import check_place, chosen_id
from coreason_client.cli.llm._turns import SavedTurn


def test_a_unique_prefix_and_an_exact_id_are_found() -> None:
    assert chosen_id("ab", ["abc"]) == "abc"
    assert chosen_id("ab", ["ab", "abc"]) == "ab"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([], "--cid: there is no conversation 'a'; coreason llm logs lists them"),
        (["a1", "a2"], "--cid: 2 conversations begin with 'a': a1, a2; give more of the ID"),
        (
            ["a1", "a2", "a3", "a4", "a5", "a6"],
            (
                "--cid: several conversations begin with 'a': a1, a2, a3, a4, a5, …; "
                "give more of the ID"
            ),
        ),
    ],
)
def test_no_conversation_or_several_are_an_error(found: list[str], says: str) -> None:
    with pytest.raises(Failure, match=f"^{re.escape(says)}$") as caught:
        chosen_id("a", found)
    assert caught.value.code is ExitCode.USAGE
    with pytest.raises(Failure, match=r"^--delete: "):
        chosen_id("a", found, "--delete")


def last(**fields: Any) -> SavedTurn:
    return SavedTurn(conversation="c1", time="", model="m", messages=[], **fields)


LOCAL = "http://127.0.0.1:11434/v1"


def test_a_conversation_continues_where_it_was_held() -> None:
    check_place(last(), None)
    check_place(last(base_url=LOCAL), LOCAL)


@pytest.mark.parametrize(
    ("turn", "base_url", "says"),
    [
        (
            last(base_url=LOCAL),
            None,
            (
                f"conversation c1 was held at {LOCAL} and would continue at the API of the model: "
                f"add --base-url {LOCAL}, or choose a model with --model"
            ),
        ),
        (
            last(provider="openai"),
            LOCAL,
            (
                f"conversation c1 was held at the API of openai and would continue at {LOCAL}: "
                "unset LLM_API_BASE_URL, or choose a model with --model"
            ),
        ),
    ],
)
def test_a_conversation_does_not_move_to_another_api_unnoticed(
    turn: SavedTurn, base_url: str | None, says: str
) -> None:
    with pytest.raises(Failure, match=f"^{re.escape(says)}$") as caught:
        check_place(turn, base_url)
    assert caught.value.code is ExitCode.USAGE
