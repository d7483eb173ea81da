"""Errors of OpenAI and compatible providers; the wire tables have more of them."""

from typing import Any

import pytest

from coreason_client.llm._answer import ProviderFault
from coreason_client.llm.providers._openai import described_error, error_of


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"error": "no", "code": "bad"}, ProviderFault("no", ("bad",))),
        (
            {"error": {"message": "no", "type": "t", "param": "p", "code": "c"}},
            ProviderFault("no", ("c", "t"), param="p"),
        ),
        ({"object": "error", "message": "no", "type": "t"}, ProviderFault("no", ("t",))),
        ({"code": "c", "message": "no"}, ProviderFault("no", ("c",))),
        ({"detail": "no"}, ProviderFault("no")),
    ],
)
def test_an_error(body: Any, fault: ProviderFault) -> None:
    assert error_of(body) == fault


@pytest.mark.parametrize("answer", ["choices", "output"])
def test_an_answer_may_have_a_code_and_a_message(answer: str) -> None:
    assert error_of({answer: [], "code": "c", "message": "m", "error": None}) is None


@pytest.mark.parametrize("body", [None, [], "no", 7, {}, {"error": None}, {"error": ""}])
def test_no_error(body: Any) -> None:
    assert error_of(body) is None


def test_a_number_is_the_status_and_the_type_is_the_code() -> None:
    found = described_error({"message": "gone", "code": 502, "type": "upstream"})
    assert found == ProviderFault("gone", ("upstream", "502"), status=502)


def test_the_reason_of_the_provider_behind_a_gateway_is_shown() -> None:
    error = {"message": "Provider returned error", "metadata": {"raw": "too long"}}
    assert described_error(error).message == "Provider returned error: too long"
    assert described_error({}).message == "the provider gave no reason"
