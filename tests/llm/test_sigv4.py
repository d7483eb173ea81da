"""Signatures of AWS: the published test suite, and values that botocore computed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._sigv4 import Scope, signed_headers

EXAMPLE = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TIME = 1440938160.0  # 2015-08-30 12:36:00, as in the whole test suite
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfI"
    "eoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0"
    "wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDry"
    "pNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)


def sign(
    method: str,
    url: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    token: str | None = None,
    region: str = "us-east-1",
    service: str = "service",
) -> dict[str, str]:
    scope = Scope(*EXAMPLE, token, region, service)
    return signed_headers(scope, method, url, headers or {}, body, TIME)


@pytest.mark.parametrize(
    ("name", "method", "path", "headers", "body", "token", "signature"),
    [
        (
            *("get-vanilla", "GET", "/", {}, b"", None),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            *("post-vanilla", "POST", "/", {}, b"", None),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            *("get-relative", "GET", "/example/..", {}, b"", None),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            *("get-slashes", "GET", "//example//", {}, b"", None),
            "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
        ),
        (
            *("get-slash-pointless-dot", "GET", "/./example", {}, b"", None),
            "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
        ),
        (
            *("get-space", "GET", "/example space/", {}, b"", None),
            "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
        ),
        (
            *("get-vanilla-query-order-key-case", "GET", "/?Param2=value2&Param1=value1"),
            *({}, b"", None),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            *("post-x-www-form-urlencoded", "POST", "/", FORM, b"Param1=value1", None),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            *("post-sts-header-before", "POST", "/", {}, b"", TOKEN),
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
    ],
)
def test_the_published_test_suite(
    name: str,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    token: str | None,
    signature: str,
) -> None:
    url = f"https://example.amazonaws.com{path}"
    signed = sign(method, url, headers, body, token=token)
    assert signed["X-Amz-Date"] == "20150830T123600Z"
    assert signed.get("X-Amz-Security-Token") == token
    start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
    assert signed["Authorization"].startswith(f"{start}SignedHeaders=")
    assert signed["Authorization"].endswith(f", Signature={signature}")


RUNTIME = "https://bedrock-runtime.{}.amazonaws.com/model/{}"
ARN = (
    "arn%3Aaws%3Abedrock%3Aus-west-2%3A123456789012%3Ainference-profile%2F"
    "us.meta.llama3-3-70b-instruct-v1%3A0"
)


@pytest.mark.proves("LLM2-bedrock-signature")
@pytest.mark.parametrize(
    ("url", "region", "token", "body", "signature"),
    [
        (
            RUNTIME.format("us-east-1", "anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"),
            *("us-east-1", None, b'{"messages":[]}'),
            "b103ed8afc3664d93d04d6a557c1a620a6e218225be2abad17ceda3e1569a3ec",
        ),
        (
            RUNTIME.format("eu-central-1", "eu.amazon.nova-pro-v1%3A0/converse-stream"),
            *("eu-central-1", "session/token+value==", b"{}"),
            "e2689adc67054955eabf44c46a8980a6ee9dc43aa07e6aa2e185ee6c05966160",
        ),
        (
            RUNTIME.format("us-west-2", f"{ARN}/converse"),
            *("us-west-2", None, '{"text":"é"}'.encode()),
            "8b225b8604d3ecee1fda1418371c57d36f41d5899c31fc1c6ed7b3f3a1a1591e",
        ),
        (
            "http://127.0.0.1:8080/base/model/m/converse?b=2&a=x%20y",
            *("us-east-1", None, b""),
            "7802a5fa339f45df7a85d2f9188a58b96709ba18a428d89b7fb07323c5ea9879",
        ),
        (
            "https://proxy.example:443/model/m~1_2/converse?flag",
            *("ap-southeast-2", None, b"x"),
            "b7d7ae10e8d83d712073e04a93b99ae308ea303dfca19b7d2af93458cd8dfefe",
        ),
    ],
)
def test_requests_to_bedrock_as_botocore_signs_them(
    url: str, region: str, token: str | None, body: bytes, signature: str
) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "not signed"}
    signed = sign("POST", url, headers, body, token=token, region=region, service="bedrock")
    assert signed["Authorization"].endswith(f", Signature={signature}")
    assert "user-agent" not in signed["Authorization"]


URL = RUNTIME.format("us-east-1", "a%3Ab/converse")


@given(body=st.binary(max_size=50), other=st.binary(max_size=50))
def test_a_signature_belongs_to_one_body(body: bytes, other: bytes) -> None:
    same = sign("POST", URL, body=body) == sign("POST", URL, body=other)
    assert same is (body == other)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        (URL.replace("%3A", ":"), {}),
        (f"{URL}?a=1", {}),
        (URL.replace("https", "http").replace(".com", ".com:8080"), {}),
        (URL, {"content-type": "text/plain"}),
        (URL, {"Host": "other.example"}),
        (URL, {"X-Amz-Target": "x"}),
    ],
)
def test_what_a_signature_covers(url: str, headers: dict[str, str]) -> None:
    assert sign("POST", url, headers)["Authorization"] != sign("POST", URL)["Authorization"]


def test_secrets_are_not_shown() -> None:
    shown = repr(Scope(*EXAMPLE, "session-token", "us-east-1", "bedrock"))
    assert EXAMPLE[1] not in shown
    assert "session-token" not in shown
