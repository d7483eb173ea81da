"""The address that a command listens on."""

import errno

import pytest

from coreason_client.cli._listening import listen_errors
from coreason_client.cli.exits import ExitCode, Failure


def test_an_error_names_the_address() -> None:
    with pytest.raises(Failure) as caught, listen_errors("127.0.0.1", 80):
        raise OSError(errno.EADDRINUSE, "Address already in use")
    assert str(caught.value) == (
        "cannot listen on 127.0.0.1, port 80: address already in use: stop the other server, or "
        "choose another port (0 is any free one)"
    )
    assert caught.value.code is ExitCode.FAILED
