"""The configuration of a webhook: its secrets come from files or variables and are not shown."""

from pathlib import Path

import pytest

from coreason_client import ArgumentError
from coreason_client.a2a import TaskPushNotificationConfig
from coreason_client.cli.a2a._push import (
    read_secret,
    webhook_config,
    webhook_row,
    without_secrets,
)
from coreason_client.cli.exits import ExitCode, Failure

HOOK = "https://me.example/hook"


def test_a_secret_comes_from_the_file_or_else_from_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert read_secret("--f", file, "V", {"V": "from-variable"}) == "from-file"
    assert read_secret("--f", None, "V", {"V": "from-variable"}) == "from-variable"
    assert read_secret("--f", None, "V", {"V": ""}) is None
    assert read_secret("--f", None, "V", {}) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"s3c\nret", b"s3c\xffret", b"s3c\0ret"])
def test_a_secret_is_one_line_and_is_never_quoted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ArgumentError, match="must have one line of printable ASCII") as caught:
        read_secret("--f", file, "V", {})
    assert "s3c" not in str(caught.value)


def test_a_file_that_cannot_be_read_or_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"^--f .*: no such file") as caught:
        read_secret("--f", tmp_path / "none", "V", {})
    assert caught.value.code is ExitCode.USAGE
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    with pytest.raises(Failure, match="larger than 64 KiB"):
        read_secret("--f", tmp_path / "large", "V", {})


def test_the_configuration_that_is_sent() -> None:
    config = webhook_config("t", HOOK, "w", "tok", "Basic", "user pass")
    assert config.dump() == {
        "taskId": "t",
        "id": "w",
        "url": HOOK,
        "token": "tok",
        "authentication": {"scheme": "Basic", "credentials": "user pass"},
    }
    assert webhook_config("t", HOOK, None, None, "Bearer", None).dump() == {
        "taskId": "t",
        "url": HOOK,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", HOOK, None, None, "Bearer", None), "TASK must not be empty"),
        (("t", HOOK, "", None, "Bearer", None), "--id must not be empty"),
        (("t", "me.example", None, None, "Bearer", None), "WEBHOOK must start with http://"),
        (("t", "https://u:s3c@x.example", None, None, "Bearer", None), "--credentials-file$"),
        (("t", HOOK, None, "s3c ret", "Bearer", None), "the push token must be visible ASCII"),
        (("t", HOOK, None, None, "Bea rer", "s3c"), "--scheme must be a word"),
    ],
)
def test_wrong_arguments_are_refused_without_secrets(
    arguments: tuple[str, str, str | None, str | None, str, str | None], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        webhook_config(*arguments)
    assert "s3c" not in str(caught.value)


def test_what_is_shown_has_no_secret() -> None:
    config = webhook_config("t", HOOK, "w", "s3c-1", "Bearer", "s3c-2")
    assert "s3c" not in without_secrets(config).to_json()
    assert without_secrets(config).dump()["authentication"] == {
        "scheme": "Bearer",
        "credentials": "***",
    }
    assert webhook_row(config) == ("w", HOOK, "with token and Bearer credentials")
    plain = TaskPushNotificationConfig(url=HOOK)
    assert without_secrets(plain) == plain
    assert webhook_row(plain) == ("(no ID)", HOOK, "")
