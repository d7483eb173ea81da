"""Signed cards: of the official SDK, of other signers, and forged ones."""

import asyncio
import base64
import hmac
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from a2a.server.routes import create_agent_card_routes
from a2a.types import a2a_pb2
from a2a.utils._jcs import canonicalize
from a2a.utils.signing import create_agent_card_signer
from google.protobuf.json_format import (  # type: ignore[import-untyped]
    MessageToDict,
    ParseDict,
)
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from coreason_client import ArgumentError, MissingExtraError
from coreason_client.a2a import (
    A2ACardSignatureError,
    A2AClient,
    A2AJSONError,
    A2AOriginError,
    AgentCard,
    AgentCardResolver,
    AsyncA2AClient,
    AsyncAgentCardResolver,
    AsyncCardTransport,
    CardTransport,
    JsonRpcTransport,
    RestTransport,
    verify_card,
)
from coreason_client.a2a._card import read_card
from tests.a2a.card_signing import (
    EC,
    EC_384,
    ED,
    OTHER,
    RSA,
    encoded,
    jwk,
    pem,
    private_pem,
    sign,
    signed,
)
from tests.a2a.loopback import Agent, as_json, serve
from tests.a2a.serving import serving

CARD: dict[str, Any] = {
    "name": "Größe \u2028 \U0001f600",
    "description": "Counts.",
    "version": "1",
    "capabilities": {
        "streaming": False,
        "extensions": [{"uri": "urn:x", "params": {"n": 10.0, "small": 1e-7, "empty": ""}}],
    },
    "supportedInterfaces": [
        {"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "", "tags": []}],
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        "token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
    },
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
}


def resolve(way: str, url: str) -> AgentCard:
    if way == "sync":
        with AgentCardResolver() as resolver:
            return resolver.resolve(url)

    async def main() -> AgentCard:
        async with AsyncAgentCardResolver() as resolver:
            return await resolver.resolve(url)

    return asyncio.run(main(), debug=True)


def refused(card: Any, keys: Any) -> A2ACardSignatureError:
    with pytest.raises(A2ACardSignatureError) as caught:
        verify_card(card, keys)
    return caught.value


# Cards of the official SDK


def signed_by_the_sdk(key: Any = EC, alg: str = "ES256") -> dict[str, Any]:
    message = ParseDict(CARD, a2a_pb2.AgentCard())
    header: Any = {"kid": "key-1", "alg": alg, "jku": None, "typ": "JOSE"}
    create_agent_card_signer(private_pem(key), header)(message)
    card: dict[str, Any] = MessageToDict(message)
    return card


@pytest.mark.parametrize(
    ("key", "alg"),
    [(EC, "ES256"), (EC_384, "ES384"), (RSA, "RS256"), (RSA, "PS512"), (ED, "EdDSA")],
)
@pytest.mark.parametrize("form", [jwk, pem, lambda key: {"keys": [jwk(OTHER, "b"), jwk(key)]}])
@pytest.mark.conforms("CARD-SIGN-001", "CARD-SIGN-002")
def test_a_card_of_the_sdk_is_accepted(key: Any, alg: str, form: Callable[[Any], Any]) -> None:
    card = verify_card(signed_by_the_sdk(key, alg), form(key))
    assert card.name == CARD["name"]
    assert card.capabilities.extensions[0].params == CARD["capabilities"]["extensions"][0]["params"]
    # The SDK does not sign empty values, which are needed all the same.
    assert list(card.security_requirements[0].schemes) == ["key"]


def test_members_of_0_3_that_a_server_adds_are_not_used() -> None:
    card = signed_by_the_sdk()
    card |= {"url": "https://evil.example", "preferredTransport": "JSONRPC", "x": 1}
    card["capabilities"]["stateTransitionHistory"] = True
    verified = verify_card(card, jwk(EC))
    assert [found.url for found in verified.supported_interfaces] == ["https://a.example/rpc"]
    assert not verified.model_extra
    assert not verified.capabilities.model_extra
    assert verify_card(verified, jwk(EC)) == verified


PATHS: list[tuple[Any, ...]] = [
    ("name",),
    ("description",),
    ("version",),
    ("supportedInterfaces", 0, "url"),
    ("supportedInterfaces", 0, "protocolVersion"),
    ("skills", 0, "id"),
    ("securitySchemes", "key", "apiKeySecurityScheme", "name"),
    ("capabilities", "extensions", 0, "params", "n"),
    ("defaultInputModes", 0),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", ["changed", "", None])
def test_no_member_of_a_card_of_the_sdk_can_be_changed(path: tuple[Any, ...], value: Any) -> None:
    card = signed_by_the_sdk()
    inner: Any = card
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises((A2ACardSignatureError, A2AJSONError)):
        verify_card(card, jwk(EC))


def test_an_added_interface_or_capability_is_noticed() -> None:
    card = signed_by_the_sdk()
    card["supportedInterfaces"].insert(0, {"url": "https://evil.example"})
    assert refused(card, jwk(EC)).reason == "invalid"
    card = signed_by_the_sdk()
    card["capabilities"]["pushNotifications"] = True
    assert refused(card, jwk(EC)).reason == "invalid"


def complete_card(url: str) -> a2a_pb2.AgentCard:
    """Return a card with every kind of scheme, for clients of both versions."""
    flow = {"tokenUrl": "https://login.example", "scopes": {"read": ""}}
    interfaces = [
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}
        for version in ("1.0", "0.3")
    ]
    members = {
        "supportedInterfaces": interfaces,
        "provider": {"url": "https://a.example", "organization": "A"},
        "iconUrl": "",
        "documentationUrl": "https://a.example/docs",
        "securitySchemes": {
            **CARD["securitySchemes"],
            "login": {"oauth2SecurityScheme": {"flows": {"clientCredentials": flow}}},
            "open": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a.example"}},
            "certificate": {"mtlsSecurityScheme": {}},
        },
        "securityRequirements": [
            {"schemes": {"key": {}}},
            {"schemes": {"login": {"list": ["read"]}, "certificate": {}}},
        ],
    }
    card: a2a_pb2.AgentCard = ParseDict(CARD | members, a2a_pb2.AgentCard())
    return card


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_card_for_both_versions_from_a_server_of_the_sdk(way: str) -> None:
    header: Any = {"kid": "key-1", "alg": "ES256", "jku": None, "typ": "JOSE"}
    signer = create_agent_card_signer(private_pem(EC), header)
    card = signer(complete_card("http://127.0.0.1:9/rpc"))
    app = Starlette(routes=[*create_agent_card_routes(card)])
    with serving(app) as url:
        served = resolve(way, url)
        assert served.model_extra is not None
        assert served.model_extra["url"] == "http://127.0.0.1:9/rpc"  # added after signing
        verified = verify_card(served, {"keys": [jwk(EC)]})
        assert refused(served, jwk(OTHER)).reason == "invalid"
    assert verified.model_extra == {}
    assert sorted(verified.security_schemes) == ["certificate", "key", "login", "open", "token"]
    assert [sorted(r.schemes) for r in verified.security_requirements] == [
        ["key"],
        ["certificate", "login"],
    ]
    assert verified._fetched_from == served._fetched_from


# Other signers


@pytest.mark.parametrize(
    ("key", "alg"),
    [(EC, "ES256"), (EC_384, "ES384"), (RSA, "RS256"), (RSA, "PS256"), (ED, "EdDSA")],
)
def test_a_card_that_is_signed_as_it_is(key: Any, alg: str) -> None:
    card = signed(CARD | {"url": "https://old.example", "x": 1}, key, alg)
    verified = verify_card(json.dumps(card).encode(), pem(key))
    assert verified.model_extra is not None
    assert verified.model_extra["x"] == 1


def test_a_card_that_is_signed_in_the_form_of_the_specification() -> None:
    form = json.loads(json.dumps(CARD))
    del form["securityRequirements"][0]["schemes"]["key"]["list"]
    card = {**CARD, "url": "https://old.example", "signatures": [sign(form, EC)]}
    verified = verify_card(card, jwk(EC))
    assert not verified.model_extra
    assert list(verified.security_requirements[0].schemes) == ["key"]


def test_a_card_of_0_3() -> None:
    old = {"name": "Old", "url": "https://a.example/rpc", "protocolVersion": "0.3.0"}
    verified = verify_card(signed(old), jwk(EC))
    assert verified.supported_interfaces[0].url == "https://a.example/rpc"
    assert refused(signed(old) | {"url": "https://evil.example"}, jwk(EC)).reason == "invalid"


def test_one_valid_signature_of_several_is_enough() -> None:
    signatures = [{"protected": "x"}, {}, sign(CARD, OTHER, kid="b"), sign(CARD, EC)]
    assert verify_card({**CARD, "signatures": signatures}, jwk(EC)).version == "1"


def test_the_number_of_signatures_that_are_tried_is_limited() -> None:
    signatures = [sign(CARD, OTHER)] * 16 + [sign(CARD, EC)]
    assert refused({**CARD, "signatures": signatures}, jwk(EC)).reason == "invalid"


@pytest.mark.conforms("CARD-SIGN-003", "CARD-SIGN-004")
def test_the_id_selects_the_key() -> None:
    card = signed(CARD, kid="key-2")
    assert verify_card(card, [jwk(OTHER, "key-1"), jwk(EC, "key-2")]).version == "1"
    assert verify_card(card, pem(EC)).version == "1"  # a key without an id is for all
    assert verify_card(signed(CARD, kid=None), [jwk(OTHER, "a"), jwk(EC, "b")]).version == "1"
    error = refused(card, [jwk(EC, "key-1")])
    assert (error.reason, error.key_ids) == ("unknown_key", ("key-2",))
    assert "['key-2'], the trusted keys are ['key-1']" in str(error)


def test_a_card_object_and_an_extended_card() -> None:
    assert verify_card(read_card(signed(CARD)), jwk(EC)).version == "1"
    parsed = AgentCard.model_validate(signed_by_the_sdk())  # as the result of a call
    assert verify_card(parsed, jwk(EC)).version == "1"
    changed = parsed.model_copy(update={"version": "2"})
    assert refused(changed, jwk(EC)).reason == "invalid"


# Hostile cards


def with_header(**header: Any) -> dict[str, Any]:
    """Return a card whose signature is valid for this protected header."""
    card: dict[str, Any] = signed(CARD, **header)
    return card


def with_hmac(secret: bytes, digest: str = "sha256") -> dict[str, Any]:
    """Return a card with an HMAC; its "secret" is what everybody knows: the public key."""
    alg = {"sha256": "HS256", "sha512": "HS512"}[digest]
    protected = encoded(json.dumps({"alg": alg, "kid": "key-1"}).encode())
    data = f"{protected}.{encoded(canonicalize(CARD).encode())}".encode()
    return with_signature(
        protected=protected, signature=encoded(hmac.new(secret, data, digest).digest())
    )


def with_signature(**members: Any) -> dict[str, Any]:
    return {**CARD, "signatures": [sign(CARD, EC) | members]}


def none_card() -> dict[str, Any]:
    protected = encoded(b'{"alg":"none","kid":"key-1"}')
    return {**CARD, "signatures": [{"protected": protected, "signature": ""}]}


def split_header() -> dict[str, Any]:
    """Return a card whose `protected` contains the payload of another card."""
    other = sign({"name": "Other"}, EC)
    payload = encoded(b'{"name":"Other"}')
    return with_signature(**other | {"protected": f"{other['protected']}.{payload}"})


HOSTILE: dict[str, Callable[[], Any]] = {
    "alg none": none_card,
    "alg None with a signature": lambda: with_signature(protected=encoded(b'{"alg":"None"}')),
    "HMAC with the PEM text": lambda: with_hmac(pem(EC).encode()),
    "HMAC with the JWK": lambda: with_hmac(json.dumps(jwk(EC)).encode(), "sha512"),
    "signed by another key": lambda: signed(CARD, OTHER),
    "signed by another key, which it brings along": lambda: signed(
        CARD, OTHER, jwk=jwk(OTHER), jku="https://evil.example/keys", x5u="https://evil.example"
    ),
    "a critical extension": lambda: with_header(crit=["exp"], exp=1),
    "an unencoded payload": lambda: with_header(b64=False, crit=["b64"]),
    "crit is empty": lambda: with_header(crit=[]),
    "alg of another key": lambda: with_signature(
        protected=encoded(b'{"alg":"RS256","kid":"key-1"}')
    ),
    "alg in the unprotected header": lambda: with_signature(
        protected=encoded(b"{}"), header={"alg": "ES256", "kid": "key-1"}
    ),
    "alg is a list": lambda: with_signature(protected=encoded(b'{"alg":["ES256"]}')),
    "alg is missing": lambda: with_signature(protected=encoded(b'{"kid":"key-1"}')),
    "header is a list": lambda: with_signature(protected=encoded(b"[]")),
    "header is not JSON": lambda: with_signature(protected=encoded(b"{")),
    "header is deeply nested": lambda: with_signature(protected=encoded(b"[" * 100_000)),
    "header is not Base64": lambda: with_signature(protected="\u00fc!"),
    "header has the payload": split_header,
    "no signature": lambda: with_signature(signature=""),
    "signature is not Base64": lambda: with_signature(signature="!!!"),
    "signature in DER": lambda: with_signature(signature=encoded(base64.b64decode("MAYCAQECAQE="))),
    "signature of zeros": lambda: with_signature(signature=encoded(bytes(64))),
    "signature of another card": lambda: {
        **CARD,
        "signatures": signed(CARD | {"version": "2"})["signatures"],
    },
    "an integer that is not exact": lambda: signed(CARD) | {"x": 2**60},
}


@pytest.mark.conforms("CARD-SIGN-003", "CARD-SIGN-004")
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "keys", [jwk(EC), pem(EC), [pem(EC), jwk(RSA)]], ids=["jwk", "pem", "many"]
)
def test_hostile_cards_are_refused(name: str, keys: Any) -> None:
    assert refused(HOSTILE[name](), keys).reason == "invalid"


def test_the_hostile_cards_differ_from_a_good_one() -> None:
    assert verify_card(with_signature(), jwk(EC)).version == "1"
    assert verify_card(with_header(jku="https://evil.example"), jwk(EC)).version == "1"


@pytest.mark.parametrize("members", [{}, {"signatures": []}, {"signatures": None}])
def test_an_unsigned_card_is_refused(members: Any) -> None:
    for card in (CARD | members, read_card(CARD | members)):
        error = refused(card, jwk(EC))
        assert (error.reason, error.key_ids) == ("unsigned", ())
        assert "is not signed" in str(error)


@pytest.mark.parametrize("signatures", [{}, "x", 0, [7], [None]])
def test_signatures_of_another_shape_are_not_a_card(signatures: Any) -> None:
    with pytest.raises(A2AJSONError):
        verify_card(CARD | {"signatures": signatures}, jwk(EC))


@given(st.from_type(dict) | st.text() | st.integers() | st.none())
def test_no_signature_raises_another_error(signature: Any) -> None:
    for entry in (signature, {"protected": signature, "signature": signature}):
        with pytest.raises((A2ACardSignatureError, A2AJSONError)):
            verify_card({**CARD, "signatures": [entry]}, jwk(EC))


@given(st.binary(min_size=1, max_size=80), st.text(max_size=20))
def test_no_random_signature_is_valid(signature: bytes, protected: str) -> None:
    card = with_signature(signature=encoded(signature))
    assert refused(card, jwk(EC)).reason == "invalid"
    assert refused(with_signature(protected=protected), jwk(EC)).key_ids == ()


# Clients


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


def connect(way: str, url: str, **options: Any) -> Any:
    if way == "sync":
        with A2AClient.connect(url, **options) as client:
            return client.card, client.send_message("say").text

    async def main() -> Any:
        async with await AsyncA2AClient.connect(url, **options) as client:
            return client.card, (await client.send_message("say")).text

    return asyncio.run(main(), debug=True)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_client_connects_only_with_a_signed_card(agent: Agent, way: str) -> None:
    agent.rules.append(
        lambda seen: as_json(signed(agent.card())) if "well-known" in seen.path else None
    )
    card, text = connect(way, agent.url, card_keys=jwk(EC), auth="a-token")
    assert text == "Said."
    assert card.signatures
    agent.seen.clear()
    with pytest.raises(A2ACardSignatureError):
        connect(way, agent.url, card_keys=jwk(OTHER), auth="a-token")
    assert [seen.method for seen in agent.seen] == ["GET"]  # no call was made


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_card_in_the_cache_is_verified_too(agent: Agent, way: str) -> None:
    agent.rules.append(
        lambda seen: (
            as_json(agent.card(), cache_control="max-age=60") if "well-known" in seen.path else None
        )
    )
    assert connect(way, agent.url)[1] == "Said."
    with pytest.raises(A2ACardSignatureError, match="is not signed"):
        connect(way, agent.url, card_keys=jwk(EC))


def test_the_origin_rules_apply_to_a_verified_card(agent: Agent) -> None:
    card = agent.card() | {"supportedInterfaces": CARD["supportedInterfaces"]}
    agent.rules.append(lambda seen: as_json(signed(card)))
    with pytest.raises(A2AOriginError):
        A2AClient.connect(agent.url, card_keys=jwk(EC), auth="a-token")


def test_clients_and_transports_from_a_card() -> None:
    good, bad = signed(CARD), signed(CARD, OTHER)
    with A2AClient.from_agent_card(good, card_keys=jwk(EC)) as client:
        assert client.card is not None
        assert client.card.name == CARD["name"]
    kinds: list[Any] = [
        A2AClient.from_agent_card,
        AsyncA2AClient.from_agent_card,
        CardTransport,
        AsyncCardTransport,
    ]
    for kind in kinds:
        with pytest.raises(A2ACardSignatureError):
            kind(read_card(bad), card_keys=jwk(EC))


@pytest.mark.parametrize("kind", [A2AClient, AsyncA2AClient, JsonRpcTransport, RestTransport])
def test_keys_without_a_card_are_an_error(kind: Any) -> None:
    with pytest.raises(ArgumentError, match="card_keys must be used with a card"):
        kind("https://a.example", card_keys=jwk(EC))


def test_wrong_keys_are_noticed_before_anything_is_sent(agent: Agent) -> None:
    with pytest.raises(ArgumentError, match="card_keys"):
        A2AClient.connect(agent.url, card_keys="no key")
    assert agent.seen == []


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "coreason_client.a2a._card_keys", raising=False)
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(MissingExtraError, match=r"coreason-client\[signatures\]"):
        A2AClient.from_agent_card(CARD, card_keys=jwk(EC))
