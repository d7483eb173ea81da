"""The errors of one call lose the secrets that the call has sent."""

import pytest

from coreason_client._http._types import Request
from coreason_client.a2a import A2AError, A2ASSEParseError, TaskNotFoundError
from coreason_client.a2a._auth import CardCredential, credentials
from coreason_client.a2a._transport_base import RedactingSender


def sent(url: str = "https://a.example", *, away: bool = False, **headers: str) -> Request:
    return Request("POST", url, headers, without_client_defaults=away)


def sender(*requests: Request) -> RedactingSender:
    made = RedactingSender(credentials("credential"))
    for request in requests:
        assert made._remember(request) is request
    return made


def test_the_secrets_of_every_request_of_the_call_are_redacted() -> None:
    made = sender(sent(Authorization="Bearer first-token"), sent(Cookie="id=cookie-value"))
    assert made.redact("first-token cookie-value credential rest") == "*** *** *** rest"


def test_headers_that_carry_no_secret_stay_readable() -> None:
    assert sender(sent(Accept="application/json")).redact("application/json") == "application/json"


def test_a_request_to_another_origin_adds_no_secret() -> None:
    made = sender(sent(away=True, Authorization="Bearer not-ours"))
    assert made.redact("not-ours") == "not-ours"


def test_a_value_that_a_callable_returned_before_is_redacted_too() -> None:
    values = iter(["first-value", "second-value"])
    given = credentials(lambda: next(values))
    made = RedactingSender(given)
    made._remember(given.apply(sent()))
    given.apply(sent(), refresh=True)  # not sent yet, but known
    assert made.redact("first-value, second-value") == "***, ***"


@pytest.mark.parametrize("auth", [None, {"a": "one-secret", "b": "two-secret"}])
def test_without_a_credential_there_is_nothing_to_redact(auth: dict[str, str] | None) -> None:
    assert CardCredential(auth).values == ()
    assert RedactingSender(CardCredential(auth)).redact("one-secret") == "one-secret"


def test_the_credential_of_a_card_is_redacted() -> None:
    assert RedactingSender(CardCredential("of-the-card")).redact("of-the-card") == "***"
    assert CardCredential(lambda: "of-the-card").values == ()  # not called yet


def test_an_error_leaves_the_block_redacted_with_its_causes_and_notes() -> None:
    error = A2AError("quotes credential")
    error.__cause__ = ValueError("the cause quotes credential")
    error.add_note("the note quotes credential")
    with pytest.raises(A2AError) as caught, sender().redacting():
        raise error
    assert caught.value is error
    texts = [str(error), str(error.__cause__), *error.__notes__]
    assert texts == ["quotes ***", "the cause quotes ***", "the note quotes ***"]


def test_what_an_error_has_of_the_response_is_redacted_too() -> None:
    data = [{"header credential": ["Bearer credential", 1, None]}]
    error = TaskNotFoundError("it quotes credential", data=data, body=b"\xff credential \xfe")
    outer = A2AError("outer")
    outer.__cause__ = error
    with pytest.raises(A2AError), sender().redacting():
        raise outer
    assert error.message == "it quotes ***"
    assert str(error) == "code=-32001, message=it quotes ***"
    assert error.data == [{"header ***": ["Bearer ***", 1, None]}]
    assert error.body == b"\xff *** \xfe"


def test_the_bytes_of_an_event_that_cannot_be_parsed_are_redacted() -> None:
    error = A2ASSEParseError("not JSON", b'{"quoted": "credential')
    with pytest.raises(A2AError), sender().redacting():
        raise error
    assert error.data == b'{"quoted": "***'


def test_an_exception_that_is_not_from_the_protocol_leaves_the_block_unchanged() -> None:
    with pytest.raises(ValueError, match=r"^credential$"), sender().redacting():
        raise ValueError("credential")
