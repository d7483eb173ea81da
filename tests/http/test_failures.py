"""Every way in which an HTTP library fails becomes one of our kinds, and nothing else does."""

import asyncio
import ssl
from types import ModuleType

import httpcore2
import httpx
import httpx2
import pytest

from coreason_client._http._build import translated
from coreason_client._http._types import FailureKind, TransportFailure
from tests.faults import FaultServer
from tests.http.support import (
    LIBRARIES,
    WAYS,
    Authority,
    Relay,
    client_of,
    fetch,
    one_answer,
    post,
)

# All transport errors, those that RFC 004 forgot included. A class that is not here is a new one.
TRANSPORT_ERRORS = {
    "CloseError": FailureKind.BROKEN,
    "ConnectError": FailureKind.CONNECT,
    "ConnectTimeout": FailureKind.CONNECT_TIMEOUT,
    "LocalProtocolError": FailureKind.BROKEN,
    "NetworkError": FailureKind.BROKEN,
    "PoolTimeout": FailureKind.TIMEOUT,
    "ProtocolError": FailureKind.BROKEN,
    "ProxyError": FailureKind.PROXY,
    "ReadError": FailureKind.BROKEN,
    "ReadTimeout": FailureKind.TIMEOUT,
    "RemoteProtocolError": FailureKind.BROKEN,
    "SSEError": FailureKind.BROKEN,  # httpx2 only
    "TimeoutException": FailureKind.TIMEOUT,
    "TransportError": FailureKind.BROKEN,
    "UnsupportedProtocol": FailureKind.BROKEN,
    "WriteError": FailureKind.BROKEN,
    "WriteTimeout": FailureKind.TIMEOUT,
}
OTHER_ERRORS = {
    "DecodingError": FailureKind.ENCODING,
    "InvalidURL": FailureKind.REQUEST,
    "RequestNotRead": FailureKind.BROKEN,
    "ResponseNotRead": FailureKind.BROKEN,
    "StreamClosed": FailureKind.BROKEN,
    "StreamConsumed": FailureKind.BROKEN,
    "StreamError": FailureKind.BROKEN,
}
# What the senders cannot meet: they follow no redirect, check no status and read no cookie.
NOT_FAILURES = {
    "CookieConflict",
    "HTTPError",
    "HTTPStatusError",
    "RequestError",
    "TooManyRedirects",
}
WITHOUT_WORDS = {"RequestNotRead", "ResponseNotRead", "StreamClosed", "StreamConsumed"}

each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda item: item.__name__)


def classes_of(library: ModuleType, base: type[BaseException] = Exception) -> set[str]:
    """Return the names of the public exceptions of a library, warnings left out."""
    found = (getattr(library, name) for name in library.__all__)
    return {
        item.__name__
        for item in found
        if isinstance(item, type) and issubclass(item, base) and not issubclass(item, Warning)
    }


def failure_of(error: BaseException) -> TransportFailure:
    with pytest.raises(TransportFailure) as raised, translated():
        raise error
    return raised.value


@pytest.mark.proves("R06d")
@each_library
def test_no_exception_of_a_library_is_unknown_to_these_tables(library: ModuleType) -> None:
    assert classes_of(library, library.TransportError) - set(TRANSPORT_ERRORS) == set()
    assert classes_of(library) - {*TRANSPORT_ERRORS, *OTHER_ERRORS, *NOT_FAILURES} == set()
    assert set(TRANSPORT_ERRORS) - classes_of(library) <= {"SSEError"}


@pytest.mark.proves("R06d", "R03f")
@pytest.mark.parametrize(
    ("library", "name", "kind"),
    [
        pytest.param(library, name, kind, id=f"{library.__name__}-{name}")
        for library in LIBRARIES
        for name, kind in (TRANSPORT_ERRORS | OTHER_ERRORS).items()
        if hasattr(library, name)
    ],
)
def test_errors_of_a_library(library: ModuleType, name: str, kind: FailureKind) -> None:
    cls = getattr(library, name)
    error = cls() if name in WITHOUT_WORDS else cls("some words")
    failure = failure_of(error)
    assert failure.kind is kind
    assert failure.__cause__ is error
    assert str(failure).startswith(f"{name}: ")


def test_an_error_without_words_is_told_by_its_name() -> None:
    assert str(failure_of(httpx2.ReadTimeout(""))) == "ReadTimeout"


@pytest.mark.proves("R06d")
def test_a_subclass_of_the_callers_is_known_by_its_base() -> None:
    class SlowToday(httpx2.ReadTimeout):
        pass

    assert failure_of(SlowToday("slow")).kind is FailureKind.TIMEOUT


@pytest.mark.parametrize(
    "error", [OSError("x"), ConnectionResetError("x"), BrokenPipeError("x"), ssl.SSLError("x")]
)
def test_the_system_errors_of_a_transport_of_the_callers(error: OSError) -> None:
    failure = failure_of(error)
    assert failure.kind is FailureKind.BROKEN
    assert failure.__cause__ is error


class ReadTimeout(Exception):
    """Has the name of a library's class, and is none."""


@pytest.mark.parametrize(
    "error",
    [
        TypeError("x"),
        ValueError("x"),
        KeyError("x"),
        RuntimeError("x"),
        AssertionError("x"),
        ReadTimeout("x"),
        httpx2.CookieConflict("x"),
        httpx.TooManyRedirects("x"),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_anything_else_passes_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, translated():
        raise error
    assert raised.value is error


def test_a_failure_is_not_translated_twice() -> None:
    failure = TransportFailure(FailureKind.TIMEOUT, "late")
    with pytest.raises(TransportFailure) as raised, translated():
        raise failure
    assert raised.value is failure


def test_without_a_failure_nothing_happens() -> None:
    with translated():
        pass


# Certificates.


def chained(error: Exception, cause: Exception, *, explicitly: bool) -> Exception:
    if explicitly:
        error.__cause__ = cause
    else:
        error.__context__ = cause
    return error


@pytest.mark.proves("R06e")
@each_library
@pytest.mark.parametrize("explicitly", [True, False])
def test_a_certificate_error_is_found_behind_others(library: ModuleType, explicitly: bool) -> None:
    bad = ssl.SSLCertVerificationError("self-signed")
    middle = chained(httpcore2.ConnectError("x"), bad, explicitly=explicitly)
    error = chained(library.ConnectError("x"), middle, explicitly=explicitly)
    assert failure_of(error).kind is FailureKind.CERTIFICATE


@pytest.mark.proves("R06e")
def test_another_tls_error_is_no_certificate_error() -> None:
    error = chained(httpx2.ConnectError("x"), ssl.SSLError("handshake"), explicitly=True)
    assert failure_of(error).kind is FailureKind.CONNECT


@pytest.mark.proves("R06e")
@pytest.mark.conforms("AUTH-SERVER-001")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", [None, *LIBRARIES], ids=["ours", "httpx2", "httpx"])
@pytest.mark.parametrize("wrong", ["authority", "host"])
def test_a_real_certificate_that_fails_the_check(
    server: FaultServer,
    authority: Authority,
    stranger: Authority,
    way: str,
    library: ModuleType | None,
    wrong: str,
) -> None:
    tls = stranger.server if wrong == "authority" else authority.elsewhere
    with Relay(server.origin, tls=tls) as relay:
        outcome = fetch(way, post(f"{relay.url}/"), lambda: library and client_of(library, way))
    assert outcome.failure is FailureKind.CERTIFICATE
    assert outcome.status is None


@pytest.mark.proves("R06e")
@pytest.mark.parametrize("way", WAYS)
def test_tls_with_a_server_that_speaks_none_is_no_certificate_error(way: str) -> None:
    with one_answer(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as (url, _):
        outcome = fetch(way, post(url.replace("http:", "https:")))
    assert outcome.failure is FailureKind.CONNECT


@pytest.mark.proves("R06d", "R03f")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", [None, *LIBRARIES], ids=["ours", "httpx2", "httpx"])
def test_a_server_that_is_not_there(way: str, library: ModuleType | None) -> None:
    with FaultServer() as gone:
        origin = gone.origin
    outcome = fetch(way, post(origin), lambda: library and client_of(library, way))
    assert outcome.failure is FailureKind.CONNECT
    assert type(outcome.cause).__name__ == "ConnectError"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", [None, *LIBRARIES], ids=["ours", "httpx2", "httpx"])
def test_an_address_that_is_none(way: str, library: ModuleType | None) -> None:
    request = post("http://127.0.0.1:notaport/")
    outcome = fetch(way, request, lambda: library and client_of(library, way))
    assert outcome.failure is FailureKind.REQUEST
