"""Requests of background responses, and the URLs to resume and to cancel one."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._check_call import check_call
from coreason_client.llm._continuation import (
    background_body,
    cancel_url,
    has_background,
    resume_url,
)
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm._route import Target

URL = "https://api.openai.com/v1/responses"


def plan(base: str | None = None) -> CallPlan:
    route = Target(base, "sk-1", wire="responses").route("gpt-5")
    return CallPlan(check_call([{"role": "user", "content": "Hi"}], "gpt-5", None, 0.7, 9), route)


def test_a_background_response_is_stored_and_streamed() -> None:
    ours = plan()
    body = background_body(ours.body)
    assert body == {**ours.body, "background": True, "store": True, "stream": True}
    assert ours.body["store"] is False
    assert "background" not in ours.body


@pytest.mark.parametrize(
    ("sequence", "query"),
    [
        (None, "stream=true"),
        (0, "stream=true&starting_after=0"),
        (7, "stream=true&starting_after=7"),
    ],
)
def test_a_stream_is_resumed_after_the_last_event(sequence: int | None, query: str) -> None:
    assert resume_url(plan().url, "resp_1", sequence) == f"{URL}/resp_1?{query}"


def test_encrypted_reasoning_is_requested_again() -> None:
    ours = plan()
    url = resume_url(ours.url, "resp_1", 7, ours.body["include"])
    fields = "stream=true&starting_after=7&include%5B%5D=reasoning.encrypted_content"
    assert url == f"{URL}/resp_1?{fields}"


def test_a_response_is_cancelled() -> None:
    assert cancel_url(plan().url, "resp_1") == f"{URL}/resp_1/cancel"


def test_the_query_of_the_base_url_is_kept() -> None:
    url = plan("https://x.openai.azure.com/openai/v1?api-version=preview").url
    base = "https://x.openai.azure.com/openai/v1/responses/r"
    assert resume_url(url, "r", 3) == f"{base}?api-version=preview&stream=true&starting_after=3"
    assert cancel_url(url, "r") == f"{base}/cancel?api-version=preview"


@given(id_=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_an_id_is_one_segment_of_the_path(id_: str) -> None:
    for url, segments in ((resume_url(URL, id_, 1), 4), (cancel_url(URL, id_), 5)):
        parts = urlsplit(url)
        assert parts.netloc == "api.openai.com"
        assert len(parts.path.split("/")) == segments
        assert not parts.fragment


@pytest.mark.parametrize(
    ("wire", "background", "expected"),
    [
        ("responses", True, True),
        ("responses", False, False),
        ("openai", True, False),
        ("anthropic", False, False),
    ],
)
def test_who_has_background_responses(wire: str, *, background: bool, expected: bool) -> None:
    profile = ProviderProfile(name="p", wire=wire, background=background)  # type: ignore[arg-type]
    assert has_background(profile) is expected
