"""Every end of an answer, as both APIs tell it."""

import asyncio
from typing import Any

import openai
import pytest

from coreason_client.server import AgentStream, OpenAIAPI

from .asking import MODEL, serving


def run(agent: Any, **options: Any) -> tuple[Any, Any, list[Any]]:
    """Return the response, its last event, and the chunks of the same question in a chat."""
    with serving(agent, **options) as client:
        response = client.responses.create(model=MODEL, input="?")
        *_, last = client.responses.create(model=MODEL, input="?", stream=True)
        chunks: list[Any] = []
        messages: Any = [{"role": "user", "content": "?"}]
        try:
            chunks += client.chat.completions.create(model=MODEL, messages=messages, stream=True)
        except openai.APIError as error:
            chunks.append(error)
        return response, last, chunks


def usage(**data: Any) -> dict[str, Any]:
    return {"type": "USAGE", "data": {"prompt_tokens": 1, "completion_tokens": 2, **data}}


def test_a_complete_answer() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("yes")

    response, last, chunks = run(agent)
    assert (response.status, response.error, response.usage) == ("completed", None, None)
    assert last.type == "response.completed"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, "stop"]


@pytest.mark.parametrize(
    ("reason", "details"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_that_the_model_did_not_finish(reason: str, details: str) -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("half")
        await stream.write_packet("EVENT", usage(finish_reason=reason))

    response, last, chunks = run(agent)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", details)
    assert last.type == "response.incomplete"
    assert response.usage.total_tokens == 3
    assert chunks[-1].choices[0].finish_reason == reason


def test_an_answer_that_fails() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("half")
        await stream.fail("no_coffee", "There is no coffee.")

    response, last, chunks = run(agent)
    assert (response.status, response.error.code) == ("failed", "server_error")
    assert response.error.message == "no_coffee: There is no coffee."
    assert response.metadata == {"problem": "no_coffee"}
    assert (last.type, response.output_text) == ("response.failed", "half")
    assert (type(chunks[-1]), chunks[-1].body["code"]) == (openai.APIError, "no_coffee")
    with serving(agent) as client, pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "?"}])
    assert caught.value.code == "no_coffee"
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_a_limit_of_the_model_has_the_code_that_clients_know() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.fail("model_rate_limit", "Too many requests.")

    response, _, _ = run(agent)
    assert response.error.code == "rate_limit_exceeded"


def test_an_agent_that_raises_an_error_does_not_tell_it() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        raise ValueError("a secret")

    response, _, chunks = run(agent)
    assert response.metadata == {"problem": "agent_error"}
    assert "secret" not in f"{response} {chunks[-1].body}"


def test_a_request_that_the_agent_rejects() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.reject("I only know trains.")

    with serving(agent) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "?"}])
    assert caught.value.code == "rejected"


def test_a_question_is_the_text_of_a_complete_answer() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.ask("Which train?")

    response, last, chunks = run(agent)
    assert (response.status, response.output_text) == ("completed", "Which train?")
    assert response.metadata == last.response.metadata == {"waiting_for": "input_required"}
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_cancelled_answer() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("half")
        await asyncio.sleep(60)

    with serving(agent) as client:
        stream = client.responses.create(model=MODEL, input="?", stream=True)
        response_id = next(stream).response.id
        while next(stream).type != "response.output_text.delta":
            pass
        cancelled = client.responses.cancel(response_id)
        assert (cancelled.status, cancelled.output_text) == ("cancelled", "half")
        *_, last = stream
        assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
        assert last.response.incomplete_details is None
        assert client.responses.cancel(response_id).status == "cancelled"


def test_a_call_without_a_result_and_content_that_is_not_text() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("Look:")
        await stream.media("https://a.example/x.png", alt_text="a [cat]")
        await stream.artifact("report", "text", {"a": 1})
        await stream.markdown("# Title")
        await stream.progress("working", 50)
        await stream.warn("slow", "It is slow.")
        data = {"call_id": "1", "name": "search", "arguments": {"q": "x"}}
        await stream.write_packet("EVENT", {"type": "TOOL_CALL", "data": data})

    response, _, chunks = run(agent)
    message, call = response.output
    text = (
        "Look:\n\n![a (cat)](https://a.example/x.png)\n\n"
        '**report**\n\ntext\n\n```json\n{\n  "a": 1\n}\n```\n\n# Title\n\n'
    )
    assert message.content[0].text == text
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == text
    assert (call.type, call.name, call.arguments) == ("mcp_call", "search", '{"q":"x"}')
    assert (call.status, call.server_label, call.error) == ("incomplete", MODEL, None)
    assert call.output == "The answer ended before the call did."


def test_headers_and_settings_are_handed_to_the_agent() -> None:
    async def agent(request: Any, stream: AgentStream) -> None:
        await stream.write(f"{request.payload.metadata} {request.context.user_id}")

    api = OpenAIAPI(headers=["X-OpenWebUI-User-Id"])
    with serving(agent, openai=api) as client:
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "?"}],
            temperature=0.5,
            user="ann",
            tools=[{"type": "function", "function": {"name": "f"}}],
            extra_headers={"X-OpenWebUI-User-Id": "u1", "X-Other": "no"},
        )
    assert answer.choices[0].message.content == (
        "{'openai': {'temperature': 0.5, 'user': 'ann'}, 'headers': {'x-openwebui-user-id': 'u1'}}"
        " ann"
    )
