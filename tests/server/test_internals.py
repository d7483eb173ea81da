"""Each undocumented name of uvicorn may be missing."""

import asyncio
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http import h11_impl

from coreason_client._fallback import report_fallback
from coreason_client.server import AgentApp, AgentStream, _internals, running
from coreason_client.server._internals import (
    DisconnectWatch,
    exit_check,
    protocol_factory,
    response_cycle,
    sets_servers,
    signalled_server,
)
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio
from .peer import Peer


@pytest.fixture(autouse=True)
def fresh_report(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    report_fallback.cache_clear()
    monkeypatch.setattr(_internals, "_known_cycles", {})
    caplog.set_level(logging.DEBUG, "coreason_client")
    yield
    report_fallback.cache_clear()


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in caplog.records if "not as expected" in record.message]
    assert {record.levelname for record in found} <= {"DEBUG"}
    return [record.message for record in found]


# The response.


class Cycle:
    """The object of a response, as far as it is used."""

    def __init__(self) -> None:
        self.disconnected = self.response_complete = False
        self.response_started = True
        self.flow = SimpleNamespace(write_paused=False, resume_reading=lambda: None)
        self.transport = object()
        self.message_event, self.more_body = asyncio.Event(), False

    def send(self) -> None: ...


@pytest.fixture
def of_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h11_impl, "RequestResponseCycle", Cycle)


@pytest.mark.usefixtures("of_uvicorn")
def test_the_object_of_a_response(caplog: pytest.LogCaptureFixture) -> None:
    cycle = Cycle()
    assert response_cycle(cycle.send) is cycle
    assert response_cycle(None) is None
    assert response_cycle(lambda: None) is None
    assert response_cycle("".join) is None  # another object's method
    assert not reports(caplog)


@pytest.mark.usefixtures("of_uvicorn")
@pytest.mark.parametrize(
    "name",
    [
        *("disconnected", "response_complete", "response_started", "flow", "transport"),
        *("message_event", "more_body"),
    ],
)
def test_a_response_without_one_of_its_names(name: str, caplog: pytest.LogCaptureFixture) -> None:
    cycle = Cycle()
    delattr(cycle, name)
    assert response_cycle(cycle.send) is response_cycle(cycle.send) is None
    assert len(reports(caplog)) == 1


@pytest.mark.usefixtures("of_uvicorn")
@pytest.mark.parametrize("name", ["write_paused", "resume_reading"])
def test_a_response_without_flow_control(name: str, caplog: pytest.LogCaptureFixture) -> None:
    cycle = Cycle()
    delattr(cycle.flow, name)
    assert response_cycle(cycle.send) is None
    assert len(reports(caplog)) == 1


def test_a_uvicorn_without_the_class(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(h11_impl, "RequestResponseCycle")
    assert response_cycle(Cycle().send) is None
    assert len(reports(caplog)) == 1


def test_a_uvicorn_that_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "uvicorn.protocols.http.h11_impl")
    assert response_cycle(Cycle().send) is None
    assert not reports(caplog)


@pytest.mark.parametrize("already", [False, True])
def test_a_watch_reports_a_disconnect_and_nothing_else(already: bool) -> None:
    cycle, calls = Cycle(), list[str]()
    cycle.disconnected = already
    watch = DisconnectWatch(cycle, lambda: calls.append("gone"))
    assert cycle.message_event is watch
    assert len(calls) == already
    cycle.message_event.set()  # as for a part of the body, or the end of the response
    assert len(calls) == 2 * already
    cycle.disconnected = True
    cycle.message_event.set()
    assert len(calls) == 1 + 2 * already
    watch.stop()
    cycle.message_event.set()
    assert len(calls) == 1 + 2 * already


# The connections. What is reported, and for which names, is in `test_connections.py`.


def server_with(protocol: type) -> Any:
    config = uvicorn.Config(speak, http=protocol)
    config.load()
    server: Any = uvicorn.Server(config)
    server.lifespan = SimpleNamespace(state={"a": 1})
    return server


@aio
async def test_the_protocol_of_a_connection() -> None:
    server = server_with(h11_impl.H11Protocol)
    make = protocol_factory(server)
    assert make is not None
    made: Any = make()
    assert (made.config, made.server_state) == (server.config, server.server_state)
    assert made.app_state == {"a": 1}
    server.config.http_protocol_class = type("Other", (h11_impl.H11Protocol,), {})
    assert type(make()).__name__ == "Other"


@aio
async def test_a_protocol_that_is_not_of_uvicorn_is_not_limited() -> None:
    assert protocol_factory(server_with(type("Own", (h11_impl.H11Protocol,), {}))) is None


@pytest.mark.parametrize("name", ["server_state", "lifespan"])
@aio
async def test_a_server_without_one_of_its_names(name: str) -> None:
    server = server_with(h11_impl.H11Protocol)
    delattr(server, name)
    assert protocol_factory(server) is None


def test_the_servers_of_asyncio() -> None:
    assert sets_servers(uvicorn.Server.startup)
    assert not sets_servers(lambda: None)
    assert not sets_servers(print)


async def speak(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("one ")
    await asyncio.sleep(0)
    await stream.write("two")


@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_the_installed_uvicorn_has_all_names(parser: str, caplog: pytest.LogCaptureFixture) -> None:
    with running(AgentApp(speak), http=parser) as server, closing(Peer(server.url)) as peer:
        assert peer.ask().status == 200
    assert not reports(caplog)


# The signals.


class Server:
    """A server that handles signals."""

    should_exit = False

    def handle(self, *_: object) -> None: ...


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(signal, "getsignal", lambda number: server.handle)
    return server


def test_the_flag_of_the_server_is_read_each_time(handler: Server) -> None:
    has_to_stop = exit_check()
    assert signalled_server() is handler
    assert has_to_stop is not None
    assert not has_to_stop()
    handler.should_exit = True
    assert has_to_stop()


@pytest.mark.usefixtures("handler")
def test_a_server_without_the_flag(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(Server, "should_exit")
    assert exit_check() is exit_check() is None
    assert len(reports(caplog)) == 1


def test_a_server_that_informs_the_application_is_not_polled(handler: Server) -> None:
    handler.drains_app = True  # type: ignore[attr-defined]
    assert exit_check() is None


def test_without_a_server_nothing_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)
    assert exit_check() is None
    assert not reports(caplog)


def test_the_installed_server_has_the_flag() -> None:
    assert uvicorn.Server(uvicorn.Config("x:y")).should_exit is False
