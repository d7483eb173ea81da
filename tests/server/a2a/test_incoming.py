"""Messages of clients: what is refused, what identifies them, and the request they become."""

import json
from base64 import b64decode
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.a2a.errors import ContentTypeNotSupportedError, InvalidParamsError
from coreason_client.server.a2a._incoming import MediaTypes, parse_message, request_for
from coreason_manifest.definitions.message import BlobPart, TextPart, UriPart

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi."}]}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (None, "message"),
        ("Hi.", "message"),
        ({}, "message.messageId"),
        ({**MESSAGE, "messageId": ""}, "message.messageId"),
        ({**MESSAGE, "messageId": "m" * 257}, "message.messageId"),
        ({**MESSAGE, "contextId": "c" * 257}, "message.contextId"),
        ({**MESSAGE, "role": "ROLE_AGENT"}, "message.role"),
        ({**MESSAGE, "role": "ROLE_UNSPECIFIED"}, "message.role"),
        ({"messageId": "m", "parts": [{"text": "Hi."}]}, "message.role"),
        ({**MESSAGE, "metadata": {"number": float("inf")}}, "message"),
        ({**MESSAGE, "parts": [{"data": float("nan")}]}, "message"),
        ({**MESSAGE, "parts": []}, "message.parts"),
        ({**MESSAGE, "parts": None}, "message.parts"),
        ({**MESSAGE, "parts": [{}]}, "message.parts[0]"),
        ({**MESSAGE, "parts": [{"text": "a"}, {"text": "b", "url": "u"}]}, "message.parts[1]"),
        ({**MESSAGE, "parts": [{"text": 3}]}, "message.parts.0.text"),
        ({**MESSAGE, "metadata": 3}, "message.metadata"),
    ],
)
def test_a_wrong_message_is_refused_and_its_field_named(message: Any, field: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        parse_message("one", message, 100)
    [violation] = refused.value.data
    assert violation.field == field
    assert refused.value.message.startswith(field)


@pytest.mark.parametrize(
    ("accepted", "media_type", "fits"),
    [
        (["text/plain"], "text/plain", True),
        (["text/plain"], "Text/Plain; charset=utf-8", True),
        (["Text/Plain"], "text/plain", True),
        (["text/plain"], "text/html", False),
        (["image/*"], "image/png", True),
        (["image/*"], "imagery/png", False),
        (["image/*"], "text/plain", False),
        (["*/*"], "text/plain", True),
        (["text/plain", "image/*"], "image/png", True),
    ],
)
def test_a_part_has_a_media_type_that_the_agent_accepts(
    accepted: list[str], media_type: str, fits: bool
) -> None:
    given = {**MESSAGE, "parts": [{"text": "Hi."}, {"text": "a", "mediaType": media_type}]}
    assert parse_message("one", given, 100).message["parts"] == given["parts"]  # it accepts all
    if fits:
        parse_message("one", given, 100, MediaTypes(accepted))
    else:
        with pytest.raises(ContentTypeNotSupportedError, match=r"message\.parts\[1\]"):
            parse_message("one", given, 100, MediaTypes(accepted))


def test_the_same_message_has_the_same_key_and_context() -> None:
    first, again = (parse_message("one", dict(MESSAGE), 100) for _ in range(2))
    assert (first.key, first.context_id) == (again.key, again.context_id)
    assert not first.named_context
    given = parse_message("one", {**MESSAGE, "contextId": "c", "taskId": "t"}, 100)
    assert (given.context_id, given.task_id, given.named_context) == ("c", "t", True)


@pytest.mark.parametrize(
    ("principal", "change"),
    [
        ("two", {}),
        ("one", {"messageId": "n"}),
        ("one", {"contextId": "c"}),
        ("one", {"taskId": "t"}),
        ("one", {"parts": [{"text": "Ho."}]}),
        ("one", {"metadata": {"a": 1}}),
    ],
)
def test_anything_else_is_another_message(principal: str, change: dict[str, Any]) -> None:
    key = parse_message("one", MESSAGE, 100).key
    assert parse_message(principal, {**MESSAGE, **change}, 100).key != key


def test_a_client_that_does_not_wait_sends_another_request() -> None:
    keys = [
        parse_message("one", MESSAGE, 100, immediately=immediately).key
        for immediately in (True, True, False)
    ]
    assert keys[0] == keys[1] != keys[2]


def test_unknown_and_empty_members_are_left_out() -> None:
    part = {"text": "Hi.", "url": None, "mediaType": None, "new": 1}
    given = {**MESSAGE, "metadata": None, "new": {"a": 1}, "parts": [part, {"data": None}]}
    found = parse_message("one", given, 100)
    assert found.message == {**MESSAGE, "parts": [{"text": "Hi."}, {"data": None}]}
    assert found.key == parse_message("one", {**given, "new": 2}, 100).key


def test_the_request_has_all_parts() -> None:
    parts = [
        {"text": "Look:"},
        {"raw": "QQ==", "mediaType": "image/png", "filename": "a.png"},
        {"url": "https://x.example/a", "mediaType": "text/html"},
        {"data": {"a": [1, None]}},
    ]
    incoming = parse_message("one", {**MESSAGE, "parts": parts, "contextId": "c"}, 100)
    request = request_for(incoming, uuid4(), "ann", {"k": 1})
    assert (request.context.session_id, request.context.user_id) == ("c", "ann")
    about = {"messageId": MESSAGE["messageId"], "filenames": [None, "a.png", None, None]}
    assert request.payload.metadata == {"k": 1, "a2a": about}
    assert request.payload.messages is not None
    text, blob, link, data = request.payload.messages[0].parts
    assert text == TextPart(content="Look:")
    assert blob == BlobPart(content="QQ==", mime_type="image/png")
    assert link == UriPart(uri="https://x.example/a", mime_type="text/html")
    assert isinstance(data, BlobPart)
    assert data.mime_type == "application/json"
    assert json.loads(b64decode(data.content)) == {"a": [1, None]}
    assert request.payload.capabilities is not None
    assert request.payload.capabilities.supported_events == ["REWIND"]


def test_the_request_has_what_the_message_says_beside_its_parts() -> None:
    about = {"metadata": {"k": 1}, "extensions": ["urn:x"], "referenceTaskIds": ["r"]}
    incoming = parse_message("one", {**MESSAGE, **about, "taskId": "t"}, 100)
    request = request_for(incoming, uuid4(), "ann", {"a2a": "a client cannot choose it"})
    ids = {"messageId": MESSAGE["messageId"], "taskId": "t"}
    assert request.payload.metadata == {"a2a": {**ids, **about}}


@pytest.mark.parametrize("raw", ["+/8=", "-_8=", "-_8", "+/8"])
def test_every_form_of_base64_reaches_the_agent_in_the_standard_form(raw: str) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": raw}]}
    incoming = parse_message("ann", message, 10)
    [part] = (request_for(incoming, uuid4(), "ann", None).payload.messages or [])[0].parts
    assert isinstance(part, BlobPart)
    assert part.content == "+/8="


@pytest.mark.parametrize("raw", ["a", "abcde", "a b=", "ä", "{}"])
def test_content_that_is_not_base64_is_refused(raw: str) -> None:
    parts = [{"text": "See:"}, {"raw": raw}]
    with pytest.raises(InvalidParamsError, match=r"message\.parts\[1\]\.raw must be Base64"):
        parse_message("ann", {"messageId": "m", "role": "ROLE_USER", "parts": parts}, 10)
