"""The page: which parts of an answer are finished, which still change, and in which order."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from rich.spinner import Spinner
from rich.text import Text

from coreason_client.cli.output._markdown import MarkdownBlock
from coreason_client.cli.output._page import AnswerPage
from coreason_manifest.definitions.presentation import ProgressUpdate


def shown(part: RenderableType) -> str:
    """Return the content of a part as text; a progress bar is rendered."""
    if isinstance(part, MarkdownBlock):
        return part.text.strip("\n")
    if isinstance(part, Text):
        return part.plain
    if isinstance(part, Spinner):
        return "<spinner>"
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(part)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().replace("━", "").split())


def taken(page: AnswerPage) -> list[str]:
    return [shown(part) for part in page.take()]


def live(page: AnswerPage, status: str = "") -> list[str]:
    return [shown(part) for part in page.live(status)]


def step(label: str, percent: float | None = None, status: str = "running") -> ProgressUpdate:
    return ProgressUpdate.model_validate(
        {"label": label, "progress_percent": percent, "status": status}
    )


def test_a_spinner_is_shown_until_there_is_something_else() -> None:
    page = AnswerPage()
    assert live(page) == ["<spinner>"]
    assert live(page, "connecting") == ["connecting"]
    page.write("a")
    assert live(page) == ["a"]
    page.end_text()
    assert (taken(page), live(page)) == (["a"], [])


def test_the_end_of_an_empty_answer_shows_nothing() -> None:
    page = AnswerPage()
    page.finish()
    assert (taken(page), live(page)) == ([], [])


def test_a_paragraph_is_finished_by_the_next_one() -> None:
    page = AnswerPage()
    page.write("one\n\nt")
    assert (taken(page), live(page)) == (["one"], ["", "t"])
    assert taken(page) == []
    page.write("wo")
    assert (taken(page), live(page)) == ([], ["", "two"])
    page.finish()
    assert (taken(page), live(page)) == (["", "two"], [])


def test_control_characters_are_removed_from_text_that_is_cut_anywhere() -> None:
    page = AnswerPage()
    for piece in ("a\x1b", "[31", "mb\x07", "\x1b["):
        page.write(piece)
    page.add_block("c\x1b[2J")
    page.finish()
    assert taken(page) == ["ab[", "", "c"]


def test_a_part_is_placed_after_the_text_before_it() -> None:
    page = AnswerPage()
    page.write("before ")
    page.add(Text("part"))
    page.write("after")
    page.finish()
    assert [text.strip() for text in taken(page)] == ["before", "part", "", "after"]


def test_a_part_within_a_word_waits_for_the_end_of_the_word() -> None:
    page = AnswerPage()
    page.write("some wo")
    page.add(Text("part"))
    assert (taken(page), live(page)) == ([], ["some wo", "part"])
    page.write("rd and")
    assert taken(page) == ["some word", "part"]
    assert [text.strip() for text in live(page)] == ["", "and"]


def test_a_part_that_waits_is_shown_when_the_text_ends() -> None:
    page = AnswerPage()
    page.write("wo")
    page.add(Text("part"))
    page.end_text()
    assert taken(page) == ["wo", "part"]


def test_a_step_is_live_while_it_runs_and_stays_when_it_has_ended() -> None:
    page = AnswerPage()
    page.progress(step("Searching", 10))
    page.progress(step("Reading"))
    assert live(page) == ["Searching 10 %", "Reading"]
    page.progress(step("Searching", 50))
    assert live(page) == ["Searching 50 %", "Reading"]
    page.progress(step("Searching", 100, "complete"))
    assert (taken(page), live(page)) == (["Searching 100 % ✓"], ["Reading"])
    page.progress(step("Reading", None, "failed"))
    assert taken(page) == ["Reading ✗"]


def test_the_bar_of_a_step_that_never_ended_is_removed_at_the_end() -> None:
    page = AnswerPage()
    page.progress(step("Searching", 10))
    page.finish()
    assert (taken(page), live(page)) == ([], [])


def test_the_status_is_the_last_live_part() -> None:
    page = AnswerPage()
    page.write("text")
    page.progress(step("Searching", 1))
    assert live(page, "reconnecting") == ["text", "Searching 1 %", "reconnecting"]


ACTIONS = st.one_of(
    st.text("ab \n", max_size=5).map(lambda text: ("write", text)),
    st.sampled_from([("add", "X"), ("block", "Y"), ("end", "")]),
)


@given(st.lists(ACTIONS, max_size=12))
def test_every_part_is_taken_once_and_parts_that_are_not_text_keep_their_order(
    actions: list[tuple[str, str]],
) -> None:
    page = AnswerPage()
    found: list[str] = []
    for kind, text in actions:
        match kind:
            case "write":
                page.write(text)
            case "add":
                page.add(Text(text))
            case "block":
                page.add_block(text)
            case "end":
                page.end_text()
        found += taken(page)
    page.finish()
    found += taken(page)
    whole = "".join("".join(found).split())
    expected = "".join("".join(text for _, text in actions).split())
    assert sorted(whole) == sorted(expected)
    assert [char for char in whole if char in "XY"] == [char for char in expected if char in "XY"]
    assert [char for char in whole if char in "ab"] == [char for char in expected if char in "ab"]


@pytest.mark.parametrize("second", ["block", "text"])
def test_there_is_a_blank_line_between_paragraphs_and_none_before_the_first(second: str) -> None:
    page = AnswerPage()
    page.add_block("one")
    if second == "block":
        page.add_block("two")
    else:
        page.write("two")
        page.end_text()
    assert taken(page) == ["one", "", "two"]
