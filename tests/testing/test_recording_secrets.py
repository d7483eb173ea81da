import json
import time
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing._recording._file import (
    RecordedChunk,
    RecordedExchange,
    Recording,
    dump,
    load,
)
from coreason_client.testing._recording._secrets import environment_secrets, without_secrets
from coreason_client.testing._secret_names import MASK
from tests.each import each

KEY = "sEcReT/k+e=y-17"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
GOOGLE = "AIzaSyA1234567890abcdefghijklmnopqrstuv"
PEM = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEA\\n-----END RSA PRIVATE KEY-----"


def exchange(
    headers: dict[str, str] | None = None,
    target: str = "/assist",
    body: Any = None,
    answer: bytes | list[bytes] = b"",
    answer_headers: dict[str, str] | None = None,
) -> RecordedExchange:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
    chunks = [answer] if isinstance(answer, bytes) else answer
    return RecordedExchange(
        "POST",
        target,
        tuple((headers or {}).items()),
        data,
        200,
        tuple((answer_headers or {}).items()),
        chunks=tuple(map(RecordedChunk, chunks)),
    )


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


# What must not be in the file, and an exchange that contains it.
TABLE: list[tuple[str, RecordedExchange]] = [
    (KEY, exchange(bearer(KEY))),
    (KEY, exchange({"proxy-authorization": f"Basic {b64encode(f'me:{KEY}'.encode()).decode()}"})),
    (KEY, exchange({"x-api-key": KEY})),
    (KEY, exchange({"api-key": KEY})),
    (KEY, exchange({"x-goog-api-key": KEY})),
    (KEY, exchange({"x-amz-security-token": KEY})),
    (KEY, exchange({"cookie": f"a=b; session={KEY}"})),
    (KEY, exchange(answer_headers={"set-cookie": f"session={KEY}; Path=/; HttpOnly"})),
    (KEY, exchange(answer_headers={"x-csrf-token": KEY})),
    ("short", exchange({"x-api-key": "short"})),
    ("abc", exchange(body={"password": "abc"})),
    (KEY, exchange(target=f"/v1beta/models/m:generateContent?key={quote(KEY, safe='')}")),
    (KEY, exchange(target=f"/x?X-Amz-Signature={quote(KEY)}&X-Amz-Credential=me")),
    (KEY, exchange(target=f"/x?access_token={quote(KEY)}&page=2")),
    (KEY, exchange(bearer(KEY), target=f"/hooks/{quote(KEY, safe='')}/in")),
    (KEY, exchange(body={"api_key": KEY})),
    (KEY, exchange(body={"config": [{"clientSecret": KEY}]})),
    (KEY, exchange(body={"authentication": {"schemes": ["Bearer"], "credentials": KEY}})),
    (KEY, exchange(body={"pushNotificationConfig": {"token": KEY + "0123456789"}})),
    (KEY, exchange(body=f"grant_type=password&client_secret={quote(KEY, safe='')}&x=1".encode())),
    (KEY, exchange(bearer(KEY), body={"text": f"My key is {KEY}."})),
    (KEY, exchange(bearer(KEY), body={KEY: 1})),
    (KEY, exchange(bearer(KEY), answer=f"You sent {KEY}.".encode())),
    (KEY, exchange(bearer(KEY), answer=f"In hex: {KEY.encode().hex()}.".encode())),
    (KEY, exchange(bearer(KEY), body={"signed": KEY.encode().hex()})),
    (KEY, exchange(bearer(KEY), answer=[b"You sent " + KEY[:4].encode(), KEY[4:].encode()])),
    (KEY, exchange(bearer(KEY), answer=[bytes([byte]) for byte in KEY.encode()])),
    (KEY, exchange(bearer(KEY), answer=b64encode(KEY.encode()))),
    (KEY, exchange(bearer(KEY), answer=b"\xff\xfe" + KEY.encode())),
    (KEY, exchange(answer=json.dumps({"access_token": KEY, "expires_in": 3600}).encode())),
    (KEY, exchange(answer=b"data: " + json.dumps({"refreshToken": KEY}).encode() + b"\n\n")),
    (KEY, exchange(answer=json.dumps({"text": json.dumps({"api_key": KEY})}).encode())),
    ('quo"te\\', exchange(bearer('quo"te\\x'), answer=json.dumps({"a": 'quo"te\\x'}).encode())),
    ("Schlüssel1", exchange(bearer("Schlüssel1"), answer=b'{"a":"Schl\\u00fcssel1"}')),
    (JWT, exchange(body={"text": f"see {JWT}"})),
    (JWT, exchange(answer=[JWT[:20].encode(), JWT[20:].encode()])),
    ("AKIAIOSFODNN7EXAMPLE", exchange(answer=b"AKIAIOSFODNN7EXAMPLE")),
    (
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        exchange(body={"t": GOOGLE}),
    ),
    ("sk-proj-abcdefghijklmnop1234", exchange(body={"t": "use sk-proj-abcdefghijklmnop1234!"})),
    ("ghp_abcdefghijklmnop1234", exchange(answer=b"ghp_abcdefghijklmnop1234")),
    ("xoxb-123456789012-abcdef", exchange(answer=b"xoxb-123456789012-abcdef")),
    ("MIIEowIBAAKCAQEA", exchange(answer=json.dumps({"t": PEM}).encode())),
    ("hunter22", exchange(body={"url": "https://me:hunter22@host.example/x"})),
    ("hunter22", exchange(answer=b'{"url":"https://me:hunter22@host.example/x"}')),
    ("hunter22", exchange(body={"url": "redis://:hunter22@host.example/0"})),
    (KEY[:6] + "token-12345678", exchange(body={"u": f"https://{KEY[:6]}token-12345678@host/x"})),
    (KEY, exchange(body={"api_keys": [KEY]}, answer=KEY.encode())),
    (KEY, exchange(body={"credentials": {"user": "ann", "value": KEY}})),
    (KEY, exchange(answer=json.dumps({"secrets": {"all": [KEY + "0123456789"]}}).encode())),
    (KEY, exchange(body={"pwd": KEY})),
    (KEY, exchange(body=f"x=1&client%5Fsecret={quote(KEY, safe='')}".encode())),
    (KEY, exchange(answer_headers={"set-cookie": f'session="{KEY}"; Path=/'}, answer=KEY.encode())),
    (KEY, exchange(answer_headers={"location": f"https://h/cb?code={quote(KEY, safe='')}&x=1"})),
    (KEY, exchange(answer_headers={"location": f"/cb#access_token={quote(KEY, safe='')}&x=1"})),
    (
        KEY,
        exchange(
            body=b'--b\r\nContent-Disposition: form-data; name="password"\r\n'
            b"Content-Type: text/plain\r\n\r\n" + KEY.encode() + b"\r\n--b--"
        ),
    ),
    ("abcdefgh12345", exchange(answer=b"curl -H 'Authorization: Bearer abcdefgh12345'")),
]


@pytest.mark.proves("KIT-record-secrets")
@each(("secret", "found"), TABLE, lambda case: case[1])
def test_no_secret_is_in_the_file(secret: str, found: RecordedExchange) -> None:
    recording = without_secrets(Recording((found,)))
    text = dump(recording)
    written = b"".join(chunk.data for chunk in load(text).exchanges[0].chunks).decode(
        errors="replace"
    )
    for form in (
        secret,
        quote(secret, safe=""),
        quote(secret),
        b64encode(secret.encode()).decode(),
        secret.encode().hex(),
    ):
        assert form not in text
        assert form not in written
        for ascii_only in (True, False):
            assert json.dumps(form, ensure_ascii=ascii_only)[1:-1] not in text + written
    assert len(recording.exchanges[0].chunks) == len(found.chunks)


def test_cookies_are_left_out() -> None:
    found = exchange({"cookie": "a=b"}, answer_headers={"set-cookie": "c=d", "x-other": "e"})
    [cleaned] = without_secrets(Recording((found,))).exchanges
    assert (cleaned.headers, cleaned.response_headers) == ((), (("x-other", "e"),))


def test_a_secret_of_one_exchange_is_removed_from_all() -> None:
    token = exchange(answer=json.dumps({"access_token": KEY}).encode())
    used = exchange(body={"text": f"with {KEY}"}, answer=KEY.encode())
    earlier = exchange(body={"text": KEY})
    text = dump(without_secrets(Recording((earlier, token, used))))
    assert KEY not in text
    assert text.count(MASK) == 4


def test_named_values_and_those_of_the_environment_are_removed() -> None:
    environment = {"MY_API_KEY": KEY, "GITHUB_TOKEN": "token-17", "HOME": "/home/me", "KEY_X": "y"}
    known = environment_secrets(environment)
    assert known == {KEY, "token-17"}
    found = exchange(body={"text": f"{KEY} token-17 named-1 /home/me"})
    text = dump(without_secrets(Recording((found,)), known | {"named-1"}))
    assert '"text": "*** *** *** /home/me"' in text


ORDINARY: list[RecordedExchange] = [
    exchange({"content-type": "application/json", "a2a-version": "1.0"}, "/assist?page=2&limit=5"),
    exchange(body={"model": "gpt-4o", "max_tokens": 5, "messages": [{"content": "The key is C."}]}),
    exchange(answer=b'data: {"choices":[{"delta":{"content":"token"}}]}\n\n'),
    exchange(answer=b'{"usage":{"prompt_tokens":5,"total_tokens":7},"finish_reason":"stop"}'),
    exchange(answer=b'{"token":" quick","key":"value","secret_santa":"Bob"}'),
    exchange(answer=b'{"secrets":[],"passwords":{"count":3},"api_key":null}'),
    exchange(answer_headers={"location": "https://host.example/tasks/7?page=2#top"}),
    exchange(answer=b"Use a bearer token. Basic rules apply: a=b&c=d"),
    exchange(answer=b'{"stream_id":"3f9fd00b-31f9-471f-8ec8-89868f0327a9","seq":1}'),
]


@each("found", ORDINARY)
def test_ordinary_text_stays(found: RecordedExchange) -> None:
    cleaned = without_secrets(Recording((found,))).exchanges[0]
    assert MASK not in dump(Recording((cleaned,)))
    assert cleaned.chunks == found.chunks


@each("depth", [900, 100_000])
def test_a_body_may_be_nested_deeply(depth: int) -> None:
    found = exchange(bearer(KEY), body=b"[" * depth + b'"' + KEY.encode() + b'"' + b"]" * depth)
    text = dump(without_secrets(Recording((found,))))
    assert KEY not in text
    assert "[" * depth in text


@each("data", [b"-eyJabcdefgh", b"-----BEGIN PRIVATE KEY-----", b"://a:", b'name="a"\r\nx'])
def test_no_text_takes_long(data: bytes) -> None:
    began = time.process_time()
    without_secrets(Recording((exchange(answer=data * (120_000 // len(data))),)))
    assert time.process_time() - began < 4  # it takes less than 0.5 s


@given(st.text("abcXYZ019-_", min_size=6, max_size=20), st.binary(), st.data())
def test_a_key_is_removed_wherever_the_service_repeats_it(
    key: str, around: bytes, data: Any
) -> None:
    body = around + key.encode() + around
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    cleaned = without_secrets(Recording((exchange(bearer(key), answer=pieces),)))
    chunks = [chunk.data for chunk in cleaned.exchanges[0].chunks]
    assert key.encode() not in b"".join(chunks)
    assert len(chunks) == len(pieces)
