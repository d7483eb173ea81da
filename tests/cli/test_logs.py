"""Logging to stderr: which levels are shown, and in which format."""

import json
import logging

import pytest

from coreason_client.cli._logs import show_logs, show_server_logs

from .conftest import LOGGERS


def levels_now() -> list[str]:
    return [logging.getLevelName(logging.getLogger(name).level) for name in LOGGERS]


@pytest.mark.parametrize(
    ("verbose", "levels"),
    [
        (0, "WARNING WARNING INFO WARNING WARNING"),
        (1, "WARNING DEBUG DEBUG WARNING INFO"),
        (2, "DEBUG DEBUG DEBUG DEBUG INFO"),
    ],
)
def test_levels_of_a_server(verbose: int, levels: str) -> None:
    show_server_logs(verbose, "text")
    assert levels_now() == levels.split()


def test_other_commands_log_only_with_v(capsys: pytest.CaptureFixture[str]) -> None:
    show_logs(0, logging.CRITICAL)
    logging.getLogger("coreason_client.x").error("no")
    show_logs(1, logging.CRITICAL)
    logging.getLogger("coreason_client.x").debug("y\x1b[1mes")
    err = capsys.readouterr().err
    assert err[2] == err[5] == ":"
    assert err[8:] == " DEBUG coreason_client.x: yes\n"


@pytest.mark.parametrize(
    ("verbose", "levels"), [(0, "ERROR ERROR"), (1, "ERROR DEBUG"), (2, "DEBUG DEBUG")]
)
def test_levels_of_other_commands(verbose: int, levels: str) -> None:
    logging.getLogger("coreason_client.server").setLevel(logging.CRITICAL)
    show_logs(verbose, logging.ERROR)
    # The server of a chat follows the package.
    assert levels_now()[:3] == [*levels.split(), "NOTSET"]


def test_the_format_of_a_server_is_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    show_server_logs(0, "text")
    logging.getLogger("coreason_client.server").info("one")
    show_server_logs(0, "json")
    logging.getLogger("coreason_client.server").info("two")
    text, as_json = capsys.readouterr().err.splitlines()
    assert text.endswith(" INFO coreason_client.server: one")
    assert json.loads(as_json)["message"] == "two"
