"""The application that the arguments of `coreason serve` define."""

from dataclasses import replace
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client import CAPClient
from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.serve._application import ServeConfig, redacted_location
from coreason_client.cli.serve._options import ServeOptions, option_names
from coreason_client.cli.serve._secrets import ApiKeys, SecretValue, ServeSecrets
from coreason_client.server import (
    A2A,
    MemoryStreamLog,
    PostgresStreamLog,
    SQLiteStreamLog,
    ValkeyStreamLog,
    running,
)


def config(**options: Any) -> ServeConfig:
    return ServeConfig(ServeOptions(**options))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sqlite:streams.db", "streams.db"),
        ("sqlite:/var/lib/a b.db", "/var/lib/a b.db"),
        ("valkey://host:6379/0", "valkey://host:6379/0"),
        ("valkey://:secret@host:6379/0", "valkey://host:6379/0"),
        ("rediss://name:p%40ss@host/2", "rediss://host/2"),
        ("redis://name:p@ss@host/2", "redis://host/2"),
        ("redis://host/2?password=secret", "redis://host/2"),
        ("postgresql://name:secret@a:1,b:2/agents?sslmode=require", "postgresql://a:1,b:2/agents"),
        ("postgresql://name:secret@/agents?host=/run", "postgresql:///agents"),
    ],
)
def test_the_location_of_a_log_is_shown_without_its_password(name: str, shown: str) -> None:
    assert redacted_location(name) == shown


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", MemoryStreamLog),
        ("memory", MemoryStreamLog),
        ("sqlite:streams.db", SQLiteStreamLog),
        ("valkey://host", ValkeyStreamLog),
        ("redis://host", ValkeyStreamLog),
        ("rediss://host", ValkeyStreamLog),
        ("valkeys://host", ValkeyStreamLog),
        ("postgresql://host/agents", PostgresStreamLog),
        ("postgres://host/agents", PostgresStreamLog),
    ],
)
def test_the_name_of_a_log_selects_its_kind(name: str, kind: type[object]) -> None:
    assert type(config(store=name).app().log) is kind


@pytest.mark.parametrize(
    "name", ["sqlite:", "mysql://u:secret@host", "valkey:host", "postgresql:x", "memory:x"]
)
def test_any_other_log_is_refused_without_quoting_it(name: str) -> None:
    with pytest.raises(Failure) as caught:
        config(store=name).app()
    assert caught.value.code is ExitCode.USAGE
    assert "--store must be memory, sqlite:PATH, postgresql://HOST or valkey://HOST" in str(
        caught.value
    )
    assert "secret" not in str(caught.value)


def test_an_invalid_argument_is_named_as_its_option() -> None:
    with pytest.raises(Failure, match="--max-requests-per-minute must be a whole number"):
        config(max_requests_per_minute=0).app()


def test_pages_of_a_listed_origin_may_ask() -> None:
    app = config(cors_origins=["http://localhost:5173"]).app()
    with running(app, log_config=None) as server:
        headers = {"Origin": "http://localhost:5173", "Sec-Fetch-Site": "cross-site"}
        response = httpx2.get(f"{server.url}/page/config.json", headers=headers)
    assert response.headers["access-control-allow-origin"] == "http://localhost:5173"
    with pytest.raises(Failure, match=r"--cors-origin must have origins .* final slash"):
        config(cors_origins=["http://localhost:5173/"]).app()


def test_an_agent_and_a_model_exclude_each_other() -> None:
    with pytest.raises(Failure, match="cannot be used together"):
        config(agents=["module:agent"], llm="model").app()


def test_the_guide_pauses_after_each_word_if_somebody_watches() -> None:
    # The rest of the answer is not waited for.
    app = config(open_page=True, drain_timeout=0.1).app()
    with running(app, log_config=None) as server, CAPClient(server.url, "any-key") as client:
        request = client.chat("How do I resume a stream?").request
        assert request is not None
        with client.assist(request) as stream:
            times = list(islice((packet.t for packet in stream if packet.op == "DELTA"), 4))
    assert all(later - earlier >= timedelta(seconds=0.035) for earlier, later in pairwise(times))


def test_keys_are_not_shown() -> None:
    options = ServeOptions(api_keys=["hide-me"], metrics_key="hide-me")
    secrets = replace(ServeSecrets.load(options), tickets=["hide-me-too"])
    assert "hide-me" in secrets.keys.values
    assert "hide-me" not in repr(ServeConfig(options, secrets, keys_before="hide-me"))


def test_a_worker_gets_the_same_configuration() -> None:
    options = ServeOptions(uds=Path("a.sock"), cors_origins=["http://a.example"], port=1)
    secrets = ServeSecrets(
        ApiKeys(["key"], "--api-key"), ["secret"], "there", SecretValue("m", "here")
    )
    sent = ServeConfig(options, secrets, keys_before="old")
    # Only the socket is a path, and a worker does not open it.
    assert ServeConfig.from_json(sent.to_json()) == replace(
        sent,
        options=replace(options, uds="a.sock"),  # type: ignore[arg-type]
    )


def test_each_option_has_a_name_for_errors() -> None:
    names = option_names()
    assert (names["cors_origins"], names["root_path"]) == ("--cors-origin", "--root-path")
    assert (names["page"], names["open_page"]) == ("--page", "--open")
    assert not {"agents", "log"} & names.keys()


def test_http_webhooks_are_allowed_on_request() -> None:
    for allowed in (False, True):
        settings = config(a2a=True, http_webhooks=allowed)._a2a_settings()
        assert isinstance(settings, A2A)
        assert settings.allow_http_webhooks is allowed
    assert ServeOptions(http_webhooks=True).serves_a2a
