"""A client that cannot be installed: skipped here, a failure in CI."""

import sys
from pathlib import Path

import pytest

from . import installed


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "FOLDER", tmp_path / "clients")


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip), ("1", pytest.fail)])
def test_a_registry_that_cannot_be_reached(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome.Exception, match="broken cannot be installed"):  # type: ignore[attr-defined]
        installed._installed("broken", [sys.executable, "-c", "raise SystemExit(1)"])
    assert list((tmp_path / "clients").iterdir()) == []


def test_a_client_is_installed_once(tmp_path: Path) -> None:
    make = [sys.executable, "-c", "open('made', 'x').close()"]
    folder = installed._installed("client", make)
    assert (folder / "made").exists()
    assert installed._installed("client", ["does-not-exist"]) == folder
