"""The request and the response as hooks see them."""

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.llm.observe._observer import ObservedAttempt

from .collect import KEY
from .test_attributes import plan


def attempt(content: bytes = b"{}", **headers: str) -> ObservedAttempt:
    made = plan()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request("POST", f"{made.url}?key={KEY}", {**made.route.headers, **named}, content)
    return ObservedAttempt(made, 2, request, 100.0, stream=False)


def test_a_header_with_a_secret_name_is_hidden_however_short_it_is() -> None:
    found = attempt(x_api_key="abc", x_amz_security_token="t").request_info()
    assert (found.headers["x-api-key"], found.headers["x-amz-security-token"]) == ("***", "***")
    assert found.headers["Authorization"] == "***"
    assert found.headers["User-Agent"].startswith("coreason-client/")


def test_a_secret_of_this_request_alone_is_hidden_in_its_body() -> None:
    found = attempt(b'{"a": "token-of-one-request"}', x_token="token-of-one-request").request_info()
    assert found.body == b'{"a": "***"}'


def test_bytes_that_are_not_text_are_kept() -> None:
    assert attempt(b"\xff\xfe" + KEY.encode()).request_info().body == b"\xff\xfe***"


def test_a_request_without_a_response() -> None:
    found = attempt().response_info(103.5, None, None)
    assert (found.status, found.headers, found.body, found.seconds) == (None, {}, None, 3.5)
    assert found.url == "https://llm.example/v1/chat/completions"


def test_a_response() -> None:
    observed = attempt()
    observed.head = ResponseHead(200, Headers([("x-echo", KEY), ("set-cookie", "a=b")]))
    observed.body = f'"{KEY}"'.encode()
    found = observed.response_info(101.0, None, None)
    assert found.headers == {"x-echo": "***", "set-cookie": "***"}
    assert (found.status, found.body, found.attempt) == (200, b'"***"', 2)
