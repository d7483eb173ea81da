"""Every wrong argument is an `ArgumentError` that names it, and repeats no secret."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coreason_client import A2AClient, AgentCardResolver, ArgumentError, AsyncLLMClient, CAPClient
from coreason_client._http._types import timeouts_from
from coreason_client.a2a import AgentCard, AgentInterface
from coreason_client.llm import LLMRequestError
from coreason_client.server import (
    AgentApp,
    AgentStream,
    PostgresStreamLog,
    SQLiteStreamLog,
    ValkeyStreamLog,
    check_host,
    serve,
)
from coreason_client.sse import SSEDecoder, encode_comment, encode_event
from coreason_manifest.definitions.service import ServiceRequest

SECRET = "s3cret-word"
URL = "https://agent.example"
WITH_PASSWORD = f"https://me:{SECRET}@agent.example"


CARD = AgentCard(
    name="a", supported_interfaces=[AgentInterface(url=URL, protocol_binding="JSONRPC")]
)


async def agent(request: ServiceRequest, stream: AgentStream) -> None: ...


def cap(**options: Any) -> Callable[[], object]:
    return lambda: CAPClient(**{"base_url": URL, "api_key": "a-key", **options})


def a2a(url: str = URL, **options: Any) -> Callable[[], object]:
    return lambda: A2AClient(url, **options)


def llm(**options: Any) -> Callable[[], object]:
    return lambda: AsyncLLMClient(**{"api_key": "a-key", **options})


def app(**options: Any) -> Callable[[], object]:
    return lambda: AgentApp(agent, **options)


def valkey(url: str = "valkey://127.0.0.1", **options: Any) -> Callable[[], object]:
    return lambda: ValkeyStreamLog(url, **options)


def postgres(url: str = "postgresql://127.0.0.1", **options: Any) -> Callable[[], object]:
    return lambda: PostgresStreamLog(url, **options)


# What is made, the argument that is wrong, its value as the error has it.
WRONG: list[tuple[Callable[[], object], str, object]] = [
    (lambda: timeouts_from(-1), "timeout", -1),
    (cap(timeout=-1), "timeout", -1),
    (cap(deadline=0), "deadline", 0),
    (cap(max_retries=-1), "max_retries", -1),
    (cap(reconnect_for=-1), "reconnect_for", -1),
    (cap(max_retry_delay=-1), "max_retry_delay", -1),
    (cap(max_event_bytes=0), "max_event_bytes", 0),
    (cap(user_id=""), "user_id", None),
    (cap(api_key=""), "api_key", None),
    (cap(api_key=f"{SECRET}\n"), "api_key", None),
    (cap(base_url="agent"), "base_url", "agent"),
    (cap(base_url=f"{URL}/a b"), "base_url", f"{URL}/a b"),
    (cap(base_url=f"{URL}:port"), "base_url", f"{URL}:port"),
    (cap(base_url="http://[::1"), "base_url", "http://[::1"),
    (cap(base_url=f"{URL}?a=b"), "base_url", f"{URL}?a=b"),
    (cap(base_url=WITH_PASSWORD), "base_url", None),
    (cap(base_url=f"{WITH_PASSWORD} "), "base_url", None),
    (cap(base_url=f"{WITH_PASSWORD}:port"), "base_url", None),
    (cap(headers={"X A": SECRET}), "headers", "X A"),
    (cap(headers={"X-A": f"{SECRET}\n"}), "headers['X-A']", None),
    (cap(headers={"X-A": 5}), "headers['X-A']", None),
    (a2a("agent"), "url", "agent"),
    (a2a(WITH_PASSWORD), "url", None),
    (a2a(timeout=-1), "timeout", -1),
    (a2a(stream_timeout=-1), "stream_timeout", -1),
    (a2a(max_retries=-1), "max_retries", -1),
    (a2a(max_retry_delay=-1), "max_retry_delay", -1),
    (a2a(max_body_bytes=0), "max_body_bytes", 0),
    (a2a(auth=f"{SECRET}\n"), "auth", None),
    (a2a(version="0.1"), "version", "0.1"),
    (
        lambda: A2AClient.from_agent_card(CARD, interface_origins=["b"]),
        "interface_origins",
        "b",
    ),
    (lambda: AgentCardResolver().resolve("agent"), "base_url", "agent"),
    (llm(base_url="agent"), "base_url", "agent"),
    (llm(base_url=5), "base_url", 5),
    (llm(base_url=WITH_PASSWORD), "base_url", None),
    (llm(api_key=f"{SECRET} "), "api_key", None),
    (llm(keys={"anthropic": f"{SECRET} "}), "keys['anthropic']", None),
    (llm(keys={"nobody": SECRET}), "each name in keys", "nobody"),
    (llm(provider="nobody"), "provider", "nobody"),
    (llm(timeout=-1), "timeout", -1),
    (llm(max_retries=-1), "max_retries", -1),
    (llm(default_model=""), "default_model", ""),
    (app(heartbeat=0), "heartbeat", 0),
    (app(retention=-1), "retention", -1),
    (app(retention=9, final_retention=1), "final_retention", 1),
    (app(on_abandoned="wait"), "on_abandoned", "wait"),
    (app(max_requests_per_minute=0), "max_requests_per_minute", 0),
    (app(metrics="metrics"), "metrics", "metrics"),
    (app(metrics="/assist"), "metrics", "/assist"),
    (app(metrics=True, metrics_key=f"{SECRET} "), "metrics_key", None),
    (app(metrics=True, metrics_key=SECRET, metrics_public=True), "metrics_key", None),
    (app(api_keys=[]), "api_keys", None),
    (app(api_keys=[f"{SECRET} "]), "api_keys", None),
    (app(allowed_hosts=["http://a"]), "allowed_hosts", "http://a"),
    (app(public_url="a"), "public_url", "a"),
    (lambda: check_host(AgentApp(agent), "0.0.0.0"), "host", "0.0.0.0"),
    (lambda: AgentApp(agent).check_workers(2), "workers", 2),
    (lambda: serve(AgentApp(agent), head_timeout=0), "head_timeout", 0),
    (lambda: serve(AgentApp(agent), max_connections=0), "max_connections", 0),
    (lambda: SQLiteStreamLog(Path("a"), synchronous="OFF"), "synchronous", "OFF"),  # type: ignore[arg-type]
    (valkey(f"http://me:{SECRET}@a"), "url", None),
    (valkey(f"valkey://me:{SECRET}@"), "url", None),
    (valkey(f"valkey://me:{SECRET}@a/x"), "url", None),
    (valkey(f"valkey://me:{SECRET}@a:port"), "url", None),
    (valkey(f"valkey://me:{SECRET}@a/?b=c"), "url", None),
    (valkey(f"valkey://me:{SECRET}@a/?ssl_cert_reqs=none"), "url", None),
    (valkey("valkeys://a/?ssl_cert_reqs=some"), "ssl_cert_reqs in url", "some"),
    (valkey("valkey://a/1", cluster=True), "url", None),
    (valkey(lease=0), "lease", 0),
    (valkey(prefix="{a}"), "prefix", "{a}"),
    (postgres(f"http://me:{SECRET}@a"), "url", None),
    (postgres(f"postgresql://me:{SECRET}@a:port"), "url", None),
    (postgres(f"postgresql://me:{SECRET}@a:1,b:port/c"), "url", None),
    (postgres(f"postgresql://me:{SECRET}@[::1/c"), "url", None),
    (postgres(f"postgresql://me:{SECRET}/{SECRET}@a/c"), "url", None),
    (postgres(f"postgresql://me:{SECRET}@/c?host=/run&port=x"), "url", None),
    (postgres(listen_url=f"postgresql://me:{SECRET}?{SECRET}@a/c"), "listen_url", None),
    (postgres(lease=0), "lease", 0),
    (postgres(replicas=100), "replicas", 100),
    (postgres(schema="A"), "schema", "A"),
    (lambda: SSEDecoder(0), "max_event_bytes", 0),
    (lambda: encode_event("a", retry_ms=-1), "retry_ms", -1),
    (lambda: encode_event("a", id="\0"), "id", None),
    (lambda: encode_event("a", event="a\nb"), "event", None),
    (lambda: encode_comment("a\nb"), "text", None),
]


@pytest.mark.parametrize(
    ("make", "argument", "value"), WRONG, ids=lambda item: "" if callable(item) else None
)
def test_a_wrong_argument_is_named(
    make: Callable[[], object], argument: str, value: object
) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    error = caught.value
    assert (error.argument, error.value) == (argument, value)
    assert str(error).startswith(f"{argument} {error.rule}")
    assert SECRET not in f"{error} {error!r} {vars(error)}"


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("LLM_API_BASE_URL", "here", "here"),
        ("LLM_API_KEY", f"{SECRET} and more", None),
        ("ANTHROPIC_API_KEY", f"{SECRET} and more", None),
        ("DEFAULT_MODEL", " ", " "),
        ("AI_TIMEOUT", "soon", "soon"),
        ("MAX_RETRIES", "-1", "-1"),
    ],
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, shown: str | None
) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no .env
    monkeypatch.setenv(variable, value)
    with pytest.raises(LLMRequestError, match=f"^{variable} must ") as caught:
        AsyncLLMClient.from_env()
    error = caught.value.argument_error
    assert error is not None
    assert (error.argument, error.value) == (variable, shown)
    assert SECRET not in f"{caught.value} {error!r} {vars(error)}"
