"""The sentence that each error of a store becomes, and that no secret is in it."""

from ssl import SSLCertVerificationError

import pytest
from redis import exceptions as store

from coreason_client._valkey_address import parse_address
from coreason_client.server.log.remote._command_queue import PatienceExceeded
from coreason_client.server.log.valkey._errors import (
    is_transient,
    rejected,
    reply_error,
    unreachable,
)

ADDRESS = parse_address("valkey://operator1:tops3cret@host/2")
SHOWN = "the store valkey://host:6379/2"


@pytest.mark.parametrize(
    ("silent", "words"),
    [
        (PatienceExceeded(sent=True, blocked=0.0, error=None), "did not answer for 3 s"),
        (
            PatienceExceeded(sent=False, blocked=0.0, error=None),
            "did not answer for 3 s (this command was still in the queue and was not sent)",
        ),
        (PatienceExceeded(sent=True, blocked=0.9, error=None), "did not answer for 3 s"),
        (
            PatienceExceeded(sent=True, blocked=7.25, error=None),
            "did not answer for 3 s (this process itself was blocked for another 7.2 s)",
        ),
        (
            PatienceExceeded(sent=True, blocked=0.0, error=OSError("no route to tops3cret")),
            "did not answer for 3 s: no route to ***",
        ),
        (
            PatienceExceeded(sent=True, blocked=0.0, error=OSError()),
            "did not answer for 3 s: OSError",
        ),
        (
            PatienceExceeded(sent=True, blocked=0.0, error=reply_error("LOADING the dataset")),
            "rejected commands for 3 s: the dataset",
        ),
        (
            PatienceExceeded(sent=True, blocked=0.0, error=reply_error("READONLY You can't write")),
            (
                "is a read-only replica and did not become a primary within 3 s: give the log "
                "the address of the primary"
            ),
        ),
    ],
)
def test_a_store_that_was_silent(silent: PatienceExceeded, words: str) -> None:
    assert str(unreachable(ADDRESS, 3.0, silent)) == f"{SHOWN} {words}"


def untrusted() -> Exception:
    """The error of a connection whose certificate did not prove the host."""
    error = store.ConnectionError("certificate verify failed")
    error.__context__ = SSLCertVerificationError("self-signed certificate")
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (reply_error("MOVED 1 127.0.0.1:7001"), "is a node of a cluster: pass cluster=True to"),
        (reply_error("CROSSSLOT Keys"), "is a node of a cluster"),
        (reply_error("NOPERM no"), "denies access: no (the log needs the keys and channels p:*"),
        (reply_error("WRONGPASS for operator1"), "denies access: for ***"),
        (reply_error("OOM command not allowed"), "is full: it has reached its maxmemory"),
        (reply_error("WRONGTYPE Operation"), "has other data under the prefix 'p': a key has"),
        (reply_error("ERR unknown command"), "rejected the command: unknown command"),
        (untrusted(), "has an untrusted certificate: certificate verify failed"),
    ],
)
def test_a_store_that_refuses(error: Exception, words: str) -> None:
    sentence = str(rejected(ADDRESS, "p", error))
    assert sentence.startswith(f"{SHOWN} {words}")
    assert "tops3cret" not in sentence
    assert not is_transient(error)
