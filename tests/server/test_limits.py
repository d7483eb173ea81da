"""The refusals of requests that exceed a limit."""

import pytest

from coreason_client.server import AgentApp
from coreason_client.server.http._problems import (
    Problem,
    shutting_down,
    too_many_readers,
    too_many_requests,
    too_many_streams,
)

from .http.test_body import hello

OPTIONS = AgentApp(
    hello, max_readers_per_key=3, max_streams_per_key=4, max_requests_per_minute=5
)._options


@pytest.mark.parametrize(
    ("problem", "status", "slug", "words", "seconds"),
    [
        (too_many_readers(OPTIONS), 429, "too-many-readers", "3 open responses", "1"),
        (too_many_streams(OPTIONS), 429, "too-many-streams", "4 running streams", "1"),
        (too_many_requests(OPTIONS, 2 * 10**9), 429, "too-many-requests", "5 requests", "2"),
        (shutting_down(), 503, "shutting-down", "shutting down", "1"),
    ],
)
def test_a_refusal_says_what_the_limit_is_and_when_to_retry(
    problem: Problem, status: int, slug: str, words: str, seconds: str
) -> None:
    assert (problem.status, problem.slug) == (status, slug)
    assert words in problem.detail
    assert problem.headers == {"Retry-After": seconds}
