"""The options of `coreason serve`: their help, their earlier names, and values that are refused."""

import pytest
import typer
from typer.testing import CliRunner

from coreason_client.cli._app import app
from coreason_client.cli.serve._options import parse_mode
from tests.each import each


def test_the_help_shows_the_name_and_the_variable_of_the_store() -> None:
    text = CliRunner().invoke(app, ["serve", "--help"]).stdout
    assert "--store memory|sqlite:PATH|postgresql://HOST|valkey://HOST" in text
    assert "COREASON_STORE" in text


@each(("text", "mode"), [("660", 0o660), ("0600", 0o600), ("7", 0o7), ("777", 0o777)])
def test_permissions_are_octal(text: str, mode: int) -> None:
    assert parse_mode(text) == mode


@each("text", ["", "8", "999", "1777", "00660", "0o660", "-1", "rw"])
def test_other_permissions_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="must be octal permissions such as 660, got"):
        parse_mode(text)
