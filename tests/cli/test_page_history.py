"""A page is made again without the packets that became void."""

from rich.text import Text

from coreason_client.cli.output._page import AnswerPage, PageAction, PageHistory

NOTICE = ["", "The agent was restarted. The text above is void; the answer starts again:"]


class Drawn:
    """Records what is to be removed from the screen; `removable` is the result."""

    def __init__(self) -> None:
        self.removable = True
        self.removals: list[int] = []
        self.restarts = 0

    def remove_from(self, part: int) -> bool:
        self.removals.append(part)
        return self.removable

    def restart(self) -> None:
        self.restarts += 1


def made(*names: tuple[int | None, str]) -> tuple[AnswerPage, PageHistory, Drawn]:
    page, drawn = AnswerPage(), Drawn()
    history = PageHistory(page, drawn)
    for seq, name in names:
        history.do(seq, adding(name))
    return page, history, drawn


def adding(name: str) -> PageAction:
    part = Text(name)
    return lambda page: page.add(part)


def writing(text: str) -> PageAction:
    return lambda page: page.write(text)


def names(page: AnswerPage) -> list[str]:
    return [str(part) for part in page.take()]


def test_drawn_parts_are_removed_from_the_first_void_one_on() -> None:
    page, history, drawn = made((1, "a"), (2, "b"), (3, "c"))
    assert names(page) == ["a", "b", "c"]
    history.rewind(1)
    assert (drawn.removals, drawn.restarts) == ([1], 0)
    assert (page.taken, names(page)) == (1, [])


def test_parts_that_were_not_drawn_need_no_removal() -> None:
    page, history, drawn = made((1, "a"), (2, "b"))
    assert names(page) == ["a", "b"]
    history.do(3, adding("c"))
    history.rewind(2)
    assert drawn.removals == [2]
    history.do(5, adding("d"))
    assert names(page) == ["d"]


def test_valid_parts_that_were_not_drawn_yet_are_drawn() -> None:
    page, history, drawn = made((1, "a"))
    assert names(page) == ["a"]
    history.do(2, adding("b"))
    history.do(3, adding("c"))
    history.rewind(2)
    assert drawn.removals == [1]
    assert names(page) == ["b"]


def test_what_cannot_be_removed_stays_and_the_rest_follows_a_notice() -> None:
    page, history, drawn = made((1, "a"), (None, "log line"), (2, "b"))
    names(page)
    drawn.removable = False
    history.rewind(1)
    assert (page.taken, drawn.restarts) == (0, 1)
    assert names(page) == [*NOTICE, "a"]
    history.do(4, adding("c"))
    history.rewind(0)
    assert names(page) == NOTICE


def test_what_is_not_part_of_the_answer_is_kept() -> None:
    page, history, _ = made((1, "a"), (2, "b"), (None, "log line"))
    names(page)
    history.rewind(1)
    assert names(page) == ["log line"]


def test_text_continues_where_it_was() -> None:
    page, history, _ = made()
    for seq, text in ((1, "One wo"), (2, "und, and"), (3, " more")):
        history.do(seq, writing(text))
    history.rewind(1)
    history.do(5, writing("rd."))
    page.finish()
    [block] = page.take()
    assert getattr(block, "text", None) == "One word."


def test_a_rewind_without_void_packets_changes_nothing() -> None:
    page, history, drawn = made((1, "a"))
    history.rewind(1)
    assert (drawn.removals, names(page)) == ([], ["a"])
