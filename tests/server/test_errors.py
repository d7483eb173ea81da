"""The errors of the server kit carry fields, and survive a pickle."""

import copy
import pickle
from uuid import UUID

import pytest

from coreason_client.errors import CoreasonError
from coreason_client.server.errors import (
    Fenced,
    LogError,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    StreamEnded,
    UnknownStream,
)

ID = UUID(int=7)
ERRORS = [
    StreamEnded(ID),
    Fenced(ID, 3),
    OutOfSequence(ID, 9, 4),
    UnknownStream(ID),
    PositionGone(ID, 4),
    RequestConflict(ID),
    LogUnavailable("the disk is full"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_a_pickle_and_a_copy(error: CoreasonError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_one_of_ours(error: CoreasonError) -> None:
    assert isinstance(error, CoreasonError)
    assert isinstance(error, LogError) == (type(error) is not StreamEnded)
    assert str(error)
    assert "\n" not in str(error)
