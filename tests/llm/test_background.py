"""Requests of background responses, and the URLs to resume and to cancel one."""

from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._drive import Reply
from coreason_client.llm import (
    LLMClient,
    LLMError,
    LLMNotFoundError,
    LLMRequestError,
    LLMTimeoutError,
)
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
from coreason_client.testing import fake_model, virtual_clock
from tests.llm.play import MESSAGES as ASK
from tests.llm.play import Play, refusal, reply

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


# Reading a response until it has ended.

DONE = {
    "id": "resp_1",
    "status": "completed",
    "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "Hi"}], "role": "assistant"}
    ],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}


def unfinished(status: str = "in_progress") -> Reply:
    return reply(200, {**DONE, "status": status, "output": [], "usage": None})


def background(*outcomes: Reply, **policy: Any) -> Play:
    target = Target(None, "sk-1", wire="responses")
    extra = {"background": True, "store": True}
    return Play(*outcomes, models=("gpt-5",), target=target, extra=extra, **policy)


def test_a_background_response_is_read_until_it_has_ended() -> None:
    running = [unfinished("queued"), *[unfinished()] * 2, refusal(503), *[unfinished()] * 3]
    play = background(*running, reply(200, DONE))
    response = play.run()
    assert response["data"]["content"] == "Hi"
    assert response["usage"]["total_tokens"] == 5
    assert play.waits == [1, 2, 4, 1, 8, 10, 10]
    first, *others = play.requests
    assert (first.method, first.url) == ("POST", URL)
    include = "?include%5B%5D=reasoning.encrypted_content"
    assert {(one.method, one.url, one.content) for one in others} == {
        ("GET", f"{URL}/resp_1{include}", b"")
    }


def test_the_deadline_ends_the_wait_and_the_error_says_how_to_read_the_answer() -> None:
    play = background(unfinished(), deadline=20.0)
    error = play.fails(LLMTimeoutError)
    assert play.clock() - 1000 == 20
    assert "background_answer('resp_1')" in error.__notes__[0]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_response_that_did_not_complete_is_an_error(status: str) -> None:
    failed = {**DONE, "status": status, "output": [], "error": {"code": "x", "message": "no"}}
    play = background(unfinished(), reply(200, failed), max_retries=0)
    with pytest.raises(LLMError):
        play.run()
    assert len(play.requests) == 2


def test_background_responses_of_both_clients() -> None:
    with virtual_clock(), fake_model(["Hello", "Hi"], require_all=True) as model:
        options: Any = {**model.options("openai"), "wire": "responses", "default_model": "gpt-5"}
        library = openai.OpenAI(base_url=f"{model.url}/v1", api_key="key", max_retries=0)
        with LLMClient(**options) as client, library:
            extra = {"background": True, "store": True}
            answer = client.generate(ASK, extra=extra)
            assert answer["data"]["content"] == "Hello"
            queued = library.responses.create(model="gpt-5", input="Hi", background=True)
            assert queued.status == "queued"
            assert library.responses.retrieve(queued.id).output_text == "Hi"
            found = client.background_answer(queued.id)
            assert (found["data"]["content"], found["model"]) == ("Hi", "gpt-5")
            assert found["usage"]["cost_estimate"] is not None
            with pytest.raises(LLMNotFoundError):
                client.background_answer("resp_unknown")
            with pytest.raises(LLMRequestError, match="response_id must be the id"):
                client.background_answer("")
    with LLMClient("key") as client, pytest.raises(LLMRequestError, match='wire="responses"'):
        client.background_answer("resp_1", "gpt-4o")
