from collections.abc import Callable
from typing import Any

import pytest

from coreason_client import LLMClient
from coreason_client.testing import (
    FakeModel,
    ModelFailure,
    ModelTurn,
    fake_model,
    virtual_clock,
)
from tests.each import each
from tests.testing.wires import CHECKS, MESSAGES, TURN


def library() -> Any:
    """Return the library of OpenAI, whose import takes a second."""
    return pytest.importorskip("openai")


@each("check", CHECKS)
def test_our_client_reads_what_the_fake_model_sends(check: Callable[..., None]) -> None:
    check("openai", wire="responses")


def client_of(model: FakeModel) -> Any:
    return library().OpenAI(base_url=f"{model.url}/v1", api_key="sk-any", max_retries=0)


def calls_of(response: Any) -> list[tuple[str, str, str]]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [(call.call_id, call.name, call.arguments) for call in calls]


def test_the_library_of_openai_reads_it_too() -> None:
    turns: list[Any] = [TURN, TURN, ModelFailure(400, "not like this")]
    with fake_model(turns) as model, client_of(model) as client:
        whole = client.responses.create(model="gpt-4o", input="Hi")
        with client.responses.stream(model="gpt-4o", input="Hi") as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
        with pytest.raises(library().BadRequestError, match="not like this"):
            client.responses.create(model="gpt-4o", input="Hi")
    assert kinds.count("response.output_text.delta") == 2
    assert kinds[-1] == "response.completed"
    for response, first in ((whole, 1), (streamed, 3)):
        assert response.output_text == "Let me see. é😀"
        assert response.usage.input_tokens_details.cached_tokens == 4
        assert calls_of(response) == [
            (f"call_{first}", "weather", '{"city": "Köln"}'),
            (f"call_{first + 1}", "weather", '{"city": "Bonn"}'),
        ]
    assert model.requests[0].messages == [{"role": "user", "content": "Hi"}]


@each("after", range(5))
def test_a_background_response_is_resumed(after: int) -> None:
    turn = ModelTurn(["Let ", "me ", "see ", "that."], disconnect_after=after)
    with (
        fake_model(turn) as model,
        virtual_clock(),
        LLMClient(**model.options(), wire="responses") as ours,
    ):
        stream = ours.stream(MESSAGES, resume=True)
        assert "".join(stream.text()) == "Let me see that."
        assert stream.result()["data"]["content"] == "Let me see that."
        assert len(model.requests) == 1


def test_a_background_response_is_read_and_cancelled() -> None:
    with fake_model(TURN) as model, client_of(model) as client:
        created = client.responses.create(model="m", input="Hi", background=True)
        assert (created.status, created.output) == ("queued", [])
        again = client.responses.retrieve(created.id)
        assert again.status == "completed"
        events = [*client.responses.retrieve(created.id, stream=True, starting_after=2)]
        assert [event.sequence_number for event in events] == [*range(3, 3 + len(events))]
        assert events[-1].response == again
        assert client.responses.cancel(created.id).status == "cancelled"
        with pytest.raises(library().NotFoundError, match="there is no response resp_9"):
            client.responses.retrieve("resp_9")
