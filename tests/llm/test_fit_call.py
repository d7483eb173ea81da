"""A checked call, fitted to a provider."""

from typing import Any

import pytest

from coreason_client.llm import LLMRequestError
from coreason_client.llm._call import ModelCall
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import fit_call
from coreason_client.llm._route import Target

USER = {"role": "user", "content": "Hi"}
DEVELOPER = {"role": "developer", "content": "Be brief.", "name": "House"}


def fitted(
    model: str, *messages: Any, temperature: float | None = 0.7
) -> tuple[ModelCall, ModelCall]:
    route = Target("http://127.0.0.1:9", "sk-key").route(model)
    call = check_call(list(messages or [USER]), route.model, None, temperature, None)
    return call, fit_call(call, route.adapter, route.profile)


def rejection(model: str, *messages: Any, **options: Any) -> LLMRequestError:
    with pytest.raises(LLMRequestError) as caught:
        fitted(model, *messages, **options)
    return caught.value


@pytest.mark.parametrize("model", ["openai/m", "m", "anthropic/m", "gemini/m", "ollama/m"])
def test_a_call_that_fits_stays_as_it_is(model: str) -> None:
    call, fit = fitted(model, temperature=1)
    assert fit is call


@pytest.mark.proves("R37a")
def test_the_error_for_a_temperature_names_the_maximum_of_the_provider() -> None:
    error = rejection("anthropic/claude-sonnet-4-5", temperature=1.5)
    assert str(error) == (
        "temperature must be a number from 0 to 1 for a model of anthropic, got 1.5"
    )
    assert (error.provider, error.model) == ("anthropic", "claude-sonnet-4-5")
    assert error.argument_error is not None
    assert (error.argument_error.argument, error.argument_error.value) == ("temperature", 1.5)


def test_a_developer_message_stays_where_the_provider_has_the_role() -> None:
    call, fit = fitted("openai/m", DEVELOPER, USER)
    assert fit is call


def test_elsewhere_it_is_a_system_message() -> None:
    call, fit = fitted("m", DEVELOPER, USER)
    assert list(fit.messages) == [{**DEVELOPER, "role": "system"}, USER]
    assert call.messages[0]["role"] == "developer"  # the caller's call is not changed


FILE = {"type": "file", "file": {"file_data": "data:application/zip;base64,UEs=", "filename": "a"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}


@pytest.mark.parametrize(
    ("model", "part", "reason"),
    [
        ("groq/m", FILE, "'file', which groq does not accept: send the text"),
        ("groq/m", SOUND, "'input_audio', which groq does not accept: send a transcript"),
        ("ollama/m", PICTURE, "'image_url', but ollama does not fetch its URL: load the image"),
        ("anthropic/m", FILE, "'file', but anthropic accepts only PDF, text and image files"),
    ],
)
def test_the_error_for_a_part_names_its_type_and_the_provider(
    model: str, part: Any, reason: str
) -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}
    error = rejection(model, USER, asked)
    assert str(error).startswith(f"messages[1].content[1] has the type {reason}")
    assert (error.provider, error.model) == (model.partition("/")[0], "m")
