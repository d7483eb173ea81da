"""Complete responses: which are answers, and which error the others are."""

import pytest

from coreason_client._drive import Reply
from coreason_client.llm import (
    LLMAuthenticationError,
    LLMError,
    LLMOverloadedError,
    LLMQuotaError,
    LLMRequestError,
    LLMServerError,
)
from tests.llm.play import (
    Play,
    refusal,
    reply,
)


@pytest.mark.proves("R29b", "R29c")
@pytest.mark.parametrize(
    ("model", "outcome", "kind"),
    [
        pytest.param(
            "gemini/gemini-2.5-flash",
            reply(
                400,
                {
                    "error": {
                        "code": 400,
                        "message": "API key not valid.",
                        "status": "INVALID_ARGUMENT",
                        "details": [
                            {
                                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                                "reason": "API_KEY_INVALID",
                            }
                        ],
                    }
                },
            ),
            LLMAuthenticationError,
            id="gemini",
        ),
        pytest.param(
            "xai/grok-4",
            reply(403, {"code": "unauthenticated:bad-credentials", "error": "No such token"}),
            LLMAuthenticationError,
            id="xai",
        ),
        pytest.param(
            "xai/grok-4",
            reply(
                400,
                {
                    "code": "Client specified an invalid argument",
                    "error": "Incorrect API key provided: ba***na.",
                },
            ),
            LLMRequestError,
            id="xai, with its general code",
        ),
        pytest.param(
            "anthropic/claude-sonnet-4-5",
            reply(
                429,
                {
                    "type": "error",
                    "error": {
                        "type": "rate_limit_error",
                        "message": "limit",
                        "details": {"error_code": "enforced_spend_limit_reached"},
                    },
                },
            ),
            LLMQuotaError,
            id="spend limit",
        ),
    ],
)
def test_errors_with_a_misleading_status_are_not_retried(
    model: str, outcome: Reply, kind: type[LLMError]
) -> None:
    play = Play(outcome, models=[model])
    assert play.fails(kind).attempts == 1


def test_an_overload_has_its_own_class() -> None:
    error = Play(refusal(529), max_retries=0).fails(LLMOverloadedError)
    assert isinstance(error, LLMServerError)


THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
THOUGHTFUL = reply(body={"output": [THOUGHT, {"type": "message", "content": "Hi"}]})
FAILED = reply(body={"status": "failed", "error": {"code": "server_error", "message": "no"}})


def test_the_items_of_an_answer_are_those_of_the_provider_that_answered() -> None:
    models = ["openai/o3-pro", "azure/o3-pro"]
    play = Play(FAILED, THOUGHTFUL, models=models, max_retries=0)
    items = play.run()["data"]["provider_items"]
    assert items == {"azure": [THOUGHT, {"type": "message", "content": "Hi"}]}


def test_an_answer_that_failed_is_requested_again() -> None:
    play = Play(FAILED, FAILED, THOUGHTFUL, models=["openai/o3-pro"])
    assert play.run()["data"]["content"] == "Hi"
    assert len(play.requests) == 3
