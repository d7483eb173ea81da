"""An agent sees each earlier turn once, whoever keeps the history."""

import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import AsyncLLMClient
from coreason_client.server import AgentStream
from coreason_client.testing import fake_model

from ..peer import LIMIT
from .asking import MODEL, serving, shows_history


@pytest.fixture
def client() -> Iterator[Any]:
    with serving(shows_history) as client:
        yield client


def chat(client: Any, *messages: tuple[str, Any]) -> str:
    given: Any = [{"role": role, "content": content} for role, content in messages]
    answer = client.chat.completions.create(model=MODEL, messages=given)
    return answer.choices[0].message.content or ""


def test_a_chat_brings_its_history(client: Any) -> None:
    assert chat(client, ("user", "one")) == "[][user:one][one]"
    three = chat(
        client,
        *(("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2")),
        ("user", "three"),
    )
    assert three == "[user:one assistant:1 user:two assistant:2][user:three][three]"


def test_an_edit_or_a_second_answer_brings_no_turn_back(client: Any) -> None:
    chat(client, ("user", "one"))
    chat(client, ("user", "one"), ("assistant", "1"), ("user", "two"))
    assert chat(client, ("user", "one, edited")) == "[][user:one, edited][one, edited]"
    assert chat(client, ("user", "one")) == "[][user:one][one]"


def test_system_prompts_are_not_in_the_history(client: Any) -> None:
    text = chat(
        client,
        *(("system", "Be brief."), ("user", "one"), ("assistant", "1")),
        *(("developer", "Be kind."), ("user", "two")),
    )
    assert text == "[user:one assistant:1][system:Be brief. system:Be kind. user:two][two]"


def test_an_answer_that_is_to_be_continued_is_among_the_new_messages(client: Any) -> None:
    text = chat(
        client,
        *(("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2 and")),
    )
    assert text == "[user:one assistant:1][user:two assistant:2 and][two]"


def test_tool_calls_of_other_models_are_history() -> None:
    async def parts(request: Any, stream: AgentStream) -> None:
        found = [part.type for message in await stream.history() for part in message.parts]
        await stream.write(" ".join(found))

    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages: Any = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "42"}]},
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "user", "content": "two"},
    ]
    with serving(parts) as client:
        answer = client.chat.completions.create(model=MODEL, messages=messages)
        assert answer.choices[0].message.content == (
            "text reasoning tool_call tool_call_response text"
        )


def test_images_and_files_are_parts_and_are_not_fetched() -> None:
    async def parts(request: Any, stream: AgentStream) -> None:
        [message] = request.payload.messages
        await stream.write(" ".join(repr(part.dump()) for part in message.parts))

    data = "data:image/png;base64,aGk="
    content: Any = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": data}},
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/never-fetched.png"}},
        {"type": "file", "file": {"file_data": "aGk=", "filename": "a.txt"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    with serving(parts) as client:
        answer = chat(client, ("user", content))
    blob = {"type": "blob", "content": "aGk="}
    assert answer == " ".join(
        repr(part)
        for part in (
            {"type": "text", "content": "look"},
            {**blob, "mime_type": "image/png", "modality": "image"},
            {
                "type": "uri",
                "uri": "http://127.0.0.1:9/never-fetched.png",
                "modality": "image",
            },
            {**blob, "mime_type": "application/octet-stream", "modality": "file"},
            {"type": "file", "file_id": "file-1", "modality": "file"},
        )
    )


def test_a_response_continues_after_the_previous_one(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="one", instructions="Be brief.")
    assert first.output_text == "[][system:Be brief. user:one][one]"
    second = client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
    # The instructions were for one response alone.
    assert second.output_text == f"[user:one assistant:{first.output_text}][user:two][two]"
    third = client.responses.create(model=MODEL, input="three", previous_response_id=second.id)
    earlier = f"user:one assistant:{first.output_text} user:two assistant:{second.output_text}"
    assert third.output_text == f"[{earlier}][user:three][three]"


def test_two_responses_continue_after_the_same_one(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="one")
    for text in ("left", "right", "left"):
        branch = client.responses.create(
            model=MODEL, input=text, previous_response_id=first.id, stream=False
        )
        assert (
            branch.output_text == f"[user:one assistant:{first.output_text}][user:{text}][{text}]"
        )


def test_input_brings_its_history_and_is_stored_with_it(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="one")
    items: Any = [
        {"role": "user", "content": "one"},
        *first.output,
        {"role": "user", "content": "two"},
    ]
    second = client.responses.create(model=MODEL, input=items)
    expected = f"[user:one assistant:{first.output_text}][user:two][two]"
    assert second.output_text == expected
    third = client.responses.create(model=MODEL, input="three", previous_response_id=second.id)
    turns = f"user:one assistant:{first.output_text} user:two assistant:{second.output_text}"
    assert third.output_text == f"[{turns}][user:three][three]"


def test_an_item_may_be_named_instead_of_sent(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="one")
    named: Any = {"type": "item_reference", "id": first.output[0].id}
    items: Any = [{"role": "user", "content": "one"}, named, {"role": "user", "content": "two"}]
    second = client.responses.create(model=MODEL, input=items)
    assert second.output_text == f"[user:one assistant:{first.output_text}][user:two][two]"
    for unknown in ("msg_1", f"msg_{'0' * 32}_0"):
        items[1] = {"type": "item_reference", "id": unknown}
        with pytest.raises(openai.NotFoundError) as caught:
            client.responses.create(model=MODEL, input=items)
        assert caught.value.code == "response_not_found"


def test_a_conversation_is_stored_under_its_name(client: Any) -> None:
    texts = [
        client.responses.create(model=MODEL, input=text, conversation=name).output_text
        for text, name in (("one", "conv_a"), ("two", "conv_a"), ("three", "conv_b"))
    ]
    assert texts == [
        "[][user:one][one]",
        "[user:one assistant:[][user:one][one]][user:two][two]",
        "[][user:three][three]",
    ]


def test_a_response_that_is_not_stored_cannot_be_continued(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="one", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
    deadline = time.monotonic() + LIMIT
    with pytest.raises(openai.NotFoundError):
        while time.monotonic() < deadline:  # until its producer has ended
            client.responses.input_items.list(first.id)


def test_the_input_of_a_response_can_be_listed(client: Any) -> None:
    content: Any = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        {"type": "input_image", "image_url": "https://a.example/x.png", "detail": "auto"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    output = {"type": "function_call_output", "call_id": "c", "output": "42"}
    items: Any = [{"role": "user", "content": content}, output, {"role": "user", "content": "two"}]
    response = client.responses.create(model=MODEL, input=items, instructions="Be brief.")
    listed = [
        item.model_dump(exclude_unset=True)
        for item in client.responses.input_items.list(response.id)
    ]
    assert [item["type"] for item in listed] == ["message", "function_call_output", "message"]
    assert listed[0]["content"] == content
    assert (listed[1]["call_id"], listed[1]["output"]) == ("c", "42")
    assert listed[2]["content"] == [{"type": "input_text", "text": "two"}]


def test_a_deleted_response_cannot_be_continued_or_read(client: Any) -> None:
    first = client.responses.create(model=MODEL, input="one")
    second = client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model=MODEL, input="x", previous_response_id=first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError):
        list(client.responses.retrieve(first.id, stream=True, starting_after=0))
    third = client.responses.create(model=MODEL, input="three", previous_response_id=second.id)
    assert third.output_text.startswith("[user:one assistant:")


def test_a_model_gets_each_turn_once() -> None:
    with fake_model("answer", exhausted="repeat") as fake:
        agent = llm_agent("openai/fake", client=AsyncLLMClient(**fake.options()))
        with serving(agent) as client:
            chat(
                client,
                *(("system", "Be brief."), ("user", "one"), ("assistant", "1"), ("user", "two")),
            )
            first = client.responses.create(model=MODEL, input="three")
            client.responses.create(model=MODEL, input="four", previous_response_id=first.id)
        sent = [
            [(message["role"], message["content"]) for message in request.json["messages"]]
            for request in fake.requests
        ]
    assert sent[0] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "1"),
        ("user", "two"),
    ]
    assert sent[2] == [("user", "three"), ("assistant", first.output_text), ("user", "four")]
