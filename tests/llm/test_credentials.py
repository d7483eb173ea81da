"""Keys: text, AWS credentials and callables."""

from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import AsyncLLMClient, AWSCredentials, LLMClient
from coreason_client.llm.credentials import check_key_like, check_region

SECRETS = ("wJalrXUtnFEMI", "session-token-value")


def test_secrets_of_aws_are_not_shown() -> None:
    credentials = AWSCredentials("AKIDEXAMPLE", *SECRETS, "eu-west-1")
    shown = repr(credentials)
    assert shown == "AWSCredentials(access_key='AKIDEXAMPLE', region='eu-west-1')"
    for client in (LLMClient(credentials), AsyncLLMClient(keys={"bedrock": credentials})):
        assert not [secret for secret in SECRETS if secret in repr(client._target)]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("", "s"), "access_key"),
        (("a", ""), "secret_key"),
        (("a", "with space"), "secret_key"),
        (("a", 7), "secret_key"),
        (("a", "s", "line\n"), "session_token"),
        (("a", "s", None, "Frankfurt"), "region"),
        (("a", "s", None, "x.evil.example/"), "region"),
        (("a", "s", None, ""), "region"),
    ],
)
def test_credentials_that_cannot_be_sent(arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must") as caught:
        AWSCredentials(*arguments)
    assert "with space" not in str(caught.value)


def test_a_key_is_text_credentials_or_a_callable() -> None:
    credentials = AWSCredentials("a", "s")
    for key in ("sk", credentials, lambda: "sk"):
        assert check_key_like(key) is key
    for wrong in ("", "a b", 7, None, ["sk"]):
        with pytest.raises(ArgumentError, match=r"^api_key must"):
            check_key_like(wrong)


def test_a_region() -> None:
    assert check_region("us-gov-west-1") == "us-gov-west-1"
    with pytest.raises(ArgumentError, match=r"^AWS_REGION must be an AWS region .*, got 'A'$"):
        check_region("A", "AWS_REGION")
