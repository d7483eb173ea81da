"""The body of a cut: what is accepted, and that nothing else is."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.http._problems import Problem
from coreason_client.server.page._routes import CutRequest, parse_cut

ID = "5a0e0e3c-3a1c-4a43-9d57-0d5d6b0e3f11"
SEEDS = st.none() | st.integers(0, 2**53 - 1)


@given(st.uuids(), SEEDS)
def test_a_request_is_read_as_it_was_written(stream_id: UUID, seed: int | None) -> None:
    body = json.dumps({"stream_id": str(stream_id), "seed": seed}).encode()
    assert parse_cut(body) == CutRequest(stream_id=stream_id, seed=seed)


def test_the_seed_may_be_left_out() -> None:
    assert parse_cut(json.dumps({"stream_id": ID}).encode()).seed is None


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"stream_id": "x"}, {"stream_id": ID, "more": 1}, [], ID, None),
        *({"stream_id": ID, "seed": seed} for seed in (-1, 2**53, 1.0, True, "7")),
    ],
)
def test_anything_else_is_refused(body: Any) -> None:
    with pytest.raises(Problem) as caught:
        parse_cut(json.dumps(body).encode())
    assert caught.value.status == 422


@given(st.binary())
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    with pytest.raises(Problem):
        parse_cut(body)
