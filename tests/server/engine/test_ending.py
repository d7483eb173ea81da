"""The end of a stream: every order of the things that can happen to it."""

from itertools import permutations
from uuid import UUID

import pytest

from coreason_client.server.engine._packets import Ending
from coreason_client.server.errors import Fenced, LogUnavailable, StreamEnded

ID = UUID(int=7)
REFUSED = LogUnavailable("the log is away")
FENCED = Fenced(ID, 1)


def after(*events: str) -> Ending:
    ending = Ending(ID)
    for event in events:
        if event == "begun":
            ending.begun = True
        elif event == "refused":
            ending.fail(REFUSED)
        elif event == "fenced":
            ending.fail(FENCED)
        else:
            ending.given_up = True
            ending.fail(FENCED)
    return ending


@pytest.mark.parametrize(
    ("events", "ended", "broken", "taken_over", "error"),
    [
        ((), False, False, False, None),
        (("begun",), True, False, False, StreamEnded),
        (("refused",), False, True, False, LogUnavailable),
        (("fenced",), False, True, True, Fenced),
        (("given up",), True, True, True, Fenced),
        (("begun", "refused"), True, True, False, LogUnavailable),
        (("begun", "fenced"), True, True, True, Fenced),
        (("refused", "fenced"), False, True, False, LogUnavailable),
        (("fenced", "refused"), False, True, True, Fenced),
        (("refused", "given up"), True, True, True, LogUnavailable),
        (("given up", "refused"), True, True, True, Fenced),
    ],
)
def test_what_is_known_of_an_end(
    events: tuple[str, ...],
    ended: bool,
    broken: bool,
    taken_over: bool,
    error: type[Exception] | None,
) -> None:
    ending = after(*events)
    assert (ending.ended, ending.broken, ending.taken_over) == (ended, broken, taken_over)
    if error is None:
        ending.check_open()
    else:
        with pytest.raises(error):
            ending.check_open()


@pytest.mark.parametrize("events", list(permutations(("begun", "refused", "given up"))))
def test_an_end_that_was_begun_only_raises_what_the_log_raised(events: tuple[str, ...]) -> None:
    ending = after(*events)
    with pytest.raises((LogUnavailable, Fenced)):
        ending.raise_error()
    after("begun").raise_error()
