"""The official libraries use the batches, files and counts of the fake model.

So the fake is true, and what our client sends is compared with what they send, field by field.
"""

import json
import warnings
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from coreason_client import LLMClient
from coreason_client.testing import ModelFailure
from coreason_client.testing._fake_model import FakeModel
from coreason_client.testing._loopback import HTTPRequest, ResponseWriter

PDF = b"%PDF-1.7 content"
QUESTIONS = ("first", "second")
REQUESTS: list[dict[str, Any]] = [
    {
        "messages": [{"role": "user", "content": text}],
        "id": f"id-{text}",
        "temperature": None,
        "max_tokens": 9,
    }
    for text in QUESTIONS
]
TURNS = ["one", ModelFailure(400, "wrong")]


class Recorder(FakeModel):
    """A fake model that also stores the requests that are not for an answer."""

    def __init__(self, turns: Any) -> None:
        super().__init__(turns)
        self.received: list[HTTPRequest] = []

    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        self.received.append(request)
        await super()._handle(request, response)

    def sent(self) -> list[tuple[str, str, Any]]:
        """Return the method, the path and the content of each request, and forget them."""
        found = [(one.method, _path(one.path), _content(one)) for one in self.received]
        self.received.clear()
        return found


def _path(path: str) -> str:
    return path.replace("/v1beta/", "/v1/")  # newer versions of Google's library use v1


def _content(request: HTTPRequest) -> Any:
    kind = dict(request.headers).get("content-type", "")
    if kind.startswith("multipart/"):
        form = message_from_bytes(b"Content-Type: %b\r\n\r\n%b" % (kind.encode(), request.body))
        parts = [part for part in form.walk() if not part.is_multipart()]
        named = {str(part.get_param("name", header="content-disposition")): part for part in parts}
        return {
            name: (part.get_filename(), _lines(part.get_payload(decode=True)))
            for name, part in named.items()
        }
    try:
        return json.loads(request.body) if request.body else {}
    except ValueError:
        return request.body


def _lines(data: Any) -> Any:
    text = data.decode()
    return [json.loads(line) for line in text.splitlines()] if text.startswith("{") else text


def ours(fake: Recorder, provider: str, path: Path) -> list[tuple[str, str, Any]]:
    """Use everything with our client, and return what it sent."""
    with LLMClient(**fake.options(provider)) as client:
        batch = client.batch(REQUESTS, "m")
        batch.wait()
        found = {result.id: result for result in batch.results()}
        assert found["id-first"].response is not None
        assert found["id-second"].error is not None
        client.count_tokens(REQUESTS[0]["messages"], "m")
        client.delete_file(client.upload(path, "m"), "m")
    return fake.sent()


def openai(fake: Recorder, path: Path) -> list[tuple[str, str, Any]]:
    from openai import OpenAI

    with OpenAI(base_url=f"{fake.url}/v1", api_key="key", max_retries=0) as client:
        lines = [
            {
                "custom_id": f"id-{text}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {
                    "model": "m",
                    "messages": [{"role": "user", "content": text}],
                    "max_completion_tokens": 9,
                },
            }
            for text in QUESTIONS
        ]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        file = client.files.create(file=("batch.jsonl", content), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        client.batches.retrieve(batch.id)
        done = client.batches.retrieve(batch.id)
        assert done.status == "completed"
        assert done.request_counts is not None
        assert (done.request_counts.completed, done.request_counts.failed) == (1, 1)
        assert done.output_file_id
        assert done.error_file_id
        answers = json.loads(client.files.content(done.output_file_id).text)
        assert answers["response"]["body"]["choices"][0]["message"]["content"] == "one"
        errors = json.loads(client.files.content(done.error_file_id).text)
        assert errors["response"]["status_code"] == 400
        counted = client.responses.input_tokens.count(
            model="m", input=[{"type": "message", "role": "user", "content": "first"}]
        )
        assert counted.input_tokens == 1
        stored = client.files.create(file=path, purpose="user_data")
        assert stored.bytes == len(PDF)
        assert client.files.delete(stored.id).deleted
    return fake.sent()


def _text(text: str) -> Any:
    return {"type": "text", "text": text}


def anthropic(fake: Recorder, path: Path) -> list[tuple[str, str, Any]]:
    from anthropic import Anthropic

    with Anthropic(base_url=fake.url, api_key="key", max_retries=0) as client:
        requests: Any = [
            {
                "custom_id": f"id-{text}",
                "params": {
                    "model": "m",
                    "max_tokens": 9,
                    "messages": [{"role": "user", "content": [_text(text)]}],
                },
            }
            for text in QUESTIONS
        ]
        batch = client.messages.batches.create(requests=requests)
        done = client.messages.batches.retrieve(batch.id)
        assert done.processing_status == "ended"
        assert (done.request_counts.succeeded, done.request_counts.errored) == (1, 1)
        results: list[Any] = [*client.messages.batches.results(batch.id)]
        assert results[0].result.message.content[0].text == "one"
        assert results[1].result.error.error.message == "wrong"
        counted = client.messages.count_tokens(
            model="m", messages=[{"role": "user", "content": [_text("first")]}]
        )
        assert counted.input_tokens == 1
        stored = client.files.upload(file=path)
        assert stored.size_bytes == len(PDF)
        assert client.files.delete(stored.id).id == stored.id
    return fake.sent()


def gemini(fake: Recorder, path: Path) -> list[tuple[str, str, Any]]:
    with warnings.catch_warnings():  # its source has an escape that Python warns about
        warnings.simplefilter("ignore", DeprecationWarning)
        from google import genai

    with genai.Client(api_key="key", http_options={"base_url": fake.url}) as client:
        source: Any = [
            {
                "contents": [{"role": "user", "parts": [{"text": text}]}],
                "config": {"max_output_tokens": 9},
                "metadata": {"key": f"id-{text}"},
            }
            for text in QUESTIONS
        ]
        config: Any = {"display_name": "coreason-client"}
        batch: Any = client.batches.create(model="m", src=source, config=config)
        client.batches.get(name=batch.name)
        done: Any = client.batches.get(name=batch.name)
        assert done.state.name == "JOB_STATE_SUCCEEDED"
        first, second = done.dest.inlined_responses
        assert first.response.text == "one"
        assert second.error.message == "wrong"
        assert client.models.count_tokens(model="m", contents="first").total_tokens == 1
        stored: Any = client.files.upload(file=path)
        assert stored.size_bytes == len(PDF)
        client.files.delete(name=stored.name)
    return fake.sent()


# What differs on purpose: Google's library cannot count a system prompt or tools, sends the name of
# a file in a header, and an id of a file is new each time.
DIFFERENT = {":countTokens", "/upload/v1/files"}


@pytest.mark.parametrize("theirs", [openai, anthropic, gemini])
def test_our_requests_are_those_of_the_official_library(theirs: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(PDF)
    provider = theirs.__name__
    with Recorder(TURNS) as fake:
        expected = theirs(fake, path)
    with Recorder(TURNS) as fake:
        found = ours(fake, provider, path)
    assert [(method, place) for method, place, _ in found] == [
        (method, place) for method, place, _ in expected
    ]
    for (_, place, sent), (_, _, wanted) in zip(found, expected, strict=True):
        if not place.endswith(tuple(DIFFERENT)):
            assert sent == wanted, place
