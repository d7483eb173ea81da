"""Each private name of httpx2 and httpcore2 may be missing."""

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from coreason_client._fallback import report_fallback
from coreason_client._http._build import replace_network_backends


@pytest.fixture(autouse=True)
def fresh_report() -> Iterator[None]:
    report_fallback.cache_clear()
    yield
    report_fallback.cache_clear()


def client() -> Any:
    """Return what looks like a client with two pools, and one mount without a transport."""

    def transport(name: str) -> Any:
        return SimpleNamespace(_pool=SimpleNamespace(_network_backend=name))

    return SimpleNamespace(_transport=transport("a"), _mounts={"x": transport("b"), "y": None})


def backends(of: Any) -> list[str]:
    pools = [of._transport._pool, of._mounts["x"]._pool]
    return [pool._network_backend for pool in pools]


def test_every_pool_gets_its_replacement() -> None:
    made = client()
    assert replace_network_backends(made, lambda old: f"new {old}")
    assert backends(made) == ["new a", "new b"]


def test_the_real_client_has_the_names() -> None:
    with httpx2.Client() as real:
        assert replace_network_backends(real, lambda old: old)


@pytest.mark.parametrize("name", ["_transport", "_mounts", "_pool", "_network_backend"])
def test_a_name_that_is_missing_changes_nothing_and_is_reported_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = client()
    pool = made._mounts["x"]._pool
    owner = {"_pool": made._mounts["x"], "_network_backend": pool}.get(name, made)
    delattr(owner, name)
    with caplog.at_level(logging.DEBUG, "coreason_client"):
        assert not replace_network_backends(made, lambda old: f"new {old}")
        assert not replace_network_backends(made, lambda old: f"new {old}")
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "httpx2" in caplog.text
    if name != "_transport":
        assert made._transport._pool._network_backend == "a"


def test_a_backend_of_an_unknown_type_changes_nothing() -> None:
    made = client()
    assert not replace_network_backends(made, lambda old: None if old == "b" else "new")
    assert backends(made) == ["a", "b"]
