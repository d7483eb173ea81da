"""The headers that authenticate a request."""

from typing import Any

import pytest

from coreason_client.llm import AWSCredentials, LLMRequestError
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm._route import ModelRoute, Target
from coreason_client.llm.credentials import bedrock_url, key_headers, key_secrets, signed

KEY = "sk-of-the-test"
AWS = AWSCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a-session-token")
BEDROCK = "https://bedrock-runtime.eu-central-1.amazonaws.com"
NOW = 1440938160.0


@pytest.mark.parametrize(
    ("profile", "fetched", "headers"),
    [
        (ProviderProfile(name="p"), False, {"Authorization": f"Bearer {KEY}"}),
        (ProviderProfile(name="p"), True, {"Authorization": f"Bearer {KEY}"}),
        (ProviderProfile(name="p", auth="x-api-key"), True, {"x-api-key": KEY}),
        (ProviderProfile(name="p", auth="api-key", fetched_auth="bearer"), False, {"api-key": KEY}),
        (
            *(ProviderProfile(name="p", auth="api-key", fetched_auth="bearer"), True),
            {"Authorization": f"Bearer {KEY}"},
        ),
    ],
)
def test_the_header_of_a_key(
    profile: ProviderProfile, headers: dict[str, str], *, fetched: bool
) -> None:
    assert key_headers(profile, KEY, fetched=fetched) == headers
    assert key_headers(profile, None, fetched=fetched) == {}


def route(key: Any, base: str = BEDROCK, **options: Any) -> ModelRoute:
    return Target(base, key, provider="bedrock", **options).route("m")


def headers_of(found: ModelRoute, body: bytes = b"{}", now: float = NOW) -> dict[str, str]:
    return dict(found.request_headers("POST", f"{found.base}/model/m/converse", body, lambda: now))


def test_each_request_is_signed_with_its_body_and_its_time() -> None:
    found = route(AWS)
    first = headers_of(found)
    assert first["X-Amz-Date"] == "20150830T123600Z"
    assert first["X-Amz-Security-Token"] == "a-session-token"
    assert first["Content-Type"] == "application/json"
    scope = "Credential=AKIDEXAMPLE/20150830/eu-central-1/bedrock/aws4_request, "
    assert first["Authorization"].startswith(f"AWS4-HMAC-SHA256 {scope}SignedHeaders=content-type;")
    assert headers_of(found) == first
    assert headers_of(found, b"{} ")["Authorization"] != first["Authorization"]
    assert headers_of(found, now=NOW + 1)["X-Amz-Date"] == "20150830T123601Z"


def test_a_bearer_key_is_sent_as_it_is() -> None:
    headers = headers_of(route(KEY))
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert "X-Amz-Date" not in headers


def test_a_header_of_the_caller_replaces_the_signature() -> None:
    headers = headers_of(route(AWS, headers={"authorization": "Token x", "X-Amz-Other": "y"}))
    assert headers["authorization"] == "Token x"
    assert "X-Amz-Date" not in headers


def test_headers_of_the_caller_are_signed_if_they_are_of_aws() -> None:
    headers = headers_of(route(AWS, headers={"X-Amzn-Bedrock-Trace": "1", "X-Amz-Other": "y"}))
    names = "content-type;host;x-amz-date;x-amz-other;x-amz-security-token,"
    assert f"SignedHeaders={names}" in headers["Authorization"]


@pytest.mark.parametrize(
    ("host", "own", "region"),
    [
        ("bedrock-runtime.us-west-2.amazonaws.com", "eu-west-1", "us-west-2"),
        ("bedrock.us-west-2.amazonaws.com", "eu-west-1", "us-west-2"),
        ("bedrock-runtime-fips.us-east-1.amazonaws.com", None, "us-east-1"),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", None, "cn-north-1"),
        ("vpce-1-2.bedrock-runtime.us-east-2.vpce.amazonaws.com", None, "us-east-2"),
        ("127.0.0.1:8080", "eu-west-1", "eu-west-1"),
        ("bedrock-runtime.us-west-2.amazonaws.com.evil.example", "eu-west-1", "eu-west-1"),
    ],
)
def test_the_region_of_a_signature(host: str, own: str | None, region: str) -> None:
    key = AWSCredentials("AKID", "secret", region=own)
    headers = signed({}, key, "POST", f"https://{host}/model/m/converse", b"", NOW)
    assert f"/{region}/bedrock/" in headers["Authorization"]


def test_an_unknown_region_is_an_error() -> None:
    sentence = r"region of 127\.0\.0\.1 is not known: pass region to AWSCredentials"
    with pytest.raises(LLMRequestError, match=sentence):
        signed({}, AWS, "POST", "http://127.0.0.1:1/", b"", NOW)


def test_aws_credentials_are_only_for_bedrock() -> None:
    with pytest.raises(LLMRequestError, match=r"^api_key must be text for openai") as caught:
        Target("https://api.openai.com", AWS).route("gpt-4o")
    assert caught.value.argument_error is not None
    with pytest.raises(LLMRequestError, match=r"^keys\['anthropic'\] must be text"):
        Target(None, None, {"anthropic": AWS}).route("anthropic/claude")


def test_the_base_url_follows_from_the_region() -> None:
    assert bedrock_url("us-east-1") == "https://bedrock-runtime.us-east-1.amazonaws.com"
    key = AWSCredentials("AKID", "secret", region="us-east-1")
    assert Target(None, None, {"bedrock": key}).route("bedrock/m").base == bedrock_url("us-east-1")
    assert Target(None, key, provider="bedrock").route("m").base == bedrock_url("us-east-1")
    urls = {"bedrock": "https://private.example"}
    ours = Target(None, None, {"bedrock": key}, base_urls=urls)
    assert ours.route("bedrock/m").base == "https://private.example"
    with pytest.raises(
        LLMRequestError, match=r"^bedrock has no default base URL: set LLM_API_BASE_URL, or AWS_R"
    ):
        Target(None, None, {"bedrock": AWS}).route("bedrock/m")


def test_all_secrets_are_redacted() -> None:
    found = route(AWS)
    assert list(key_secrets(AWS)) == [AWS.secret_key, AWS.session_token]
    sentence = f"{AWS.access_key} {AWS.secret_key} {AWS.session_token}"
    assert found.redact(sentence) == "AKIDEXAMPLE *** ***"
    assert not [secret for secret in key_secrets(AWS) if secret in repr(found)]
    assert list(key_secrets("sk-text")) == ["sk-text"]
    assert list(key_secrets(None)) == []
