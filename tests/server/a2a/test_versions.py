"""The version of the protocol that a request uses."""

import pytest

from coreason_client.a2a.errors import VersionNotSupportedError
from coreason_client.server.a2a._protocol import requested_version


@pytest.mark.parametrize(
    ("given", "version"),
    [
        (None, "0.3"),
        ("", "0.3"),
        (" ", "0.3"),
        ("0.3", "0.3"),
        ("0.3.0", "0.3"),
        ("1.0", "1.0"),
        (" 1.0 ", "1.0"),
        ("1.0.1", "1.0"),
    ],
)
def test_a_request_names_its_version(given: str | None, version: str) -> None:
    assert requested_version(given) == version


@pytest.mark.parametrize("given", ["1", "1.1", "2.0", "0.2", "99.0", "one", "1.0, 0.3"])
def test_another_version_is_refused(given: str) -> None:
    with pytest.raises(VersionNotSupportedError, match=r"supports version 1\.0 and 0\.3 of"):
        requested_version(given)


@pytest.mark.parametrize("given", [None, "", "0.3", "1.1"])
def test_a_version_that_is_not_served_is_refused(given: str | None) -> None:
    with pytest.raises(VersionNotSupportedError, match=r"supports version 1\.0 of"):
        requested_version(given, ["1.0"])
    assert requested_version("1.0.1", ["1.0"]) == "1.0"
