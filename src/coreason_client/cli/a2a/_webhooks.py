"""The configuration of a webhook, from options, and as it is shown. Pure except for the files."""

from collections.abc import Mapping
from pathlib import Path

from coreason_client import ArgumentError
from coreason_client.a2a import TaskPushNotificationConfig
from coreason_client.a2a.types import AuthenticationInfo

from ..._http._checks import VISIBLE, check_headers, check_key, check_url
from ..exits import ExitCode, Failure
from ._ids import checked_id

__all__ = ["read_secret", "webhook_config", "webhook_row", "without_secrets"]

_MAX_BYTES = 64 * 1024
_HIDDEN = "***"


def read_secret(
    option: str, file: Path | None, variable: str, environment: Mapping[str, str]
) -> str | None:
    """Return the line in a file, or else the value of an environment variable; None if not given.

    Raises:
        Failure: the file cannot be read.
        ArgumentError: there is not exactly one line of text; the message does not contain it.
    """
    if file is None:
        found = environment.get(variable)
        return None if not found else _checked_secret(variable, found)
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"{option} {file}: {reason}", ExitCode.USAGE) from None
    if len(data) > _MAX_BYTES:
        raise Failure(f"{option} {file}: the file is larger than 64 KiB", ExitCode.USAGE)
    return _checked_secret(f"{option} {file}", data.decode("utf-8", "replace").strip())


def _checked_secret(source: str, text: str) -> str:
    if not text.isascii() or not text.isprintable() or text != text.strip() or not text:
        raise ArgumentError(source, "must have one line of printable ASCII characters")
    return text


def webhook_config(
    task_id: str,
    url: str,
    config_id: str | None,
    token: str | None,
    scheme: str,
    credentials: str | None,
) -> TaskPushNotificationConfig:
    """Return the configuration of a webhook.

    Raises:
        ArgumentError: an argument is invalid; the message contains no secret.
    """
    check_url(url, "WEBHOOK", credentials_go_into="--credentials-file")
    if token is not None:
        check_key(token, "the push token")
    if not VISIBLE.fullmatch(scheme):
        raise ArgumentError("--scheme", "must be a word, such as Bearer", scheme)
    authentication = None
    if credentials is not None:
        check_headers({"Authorization": f"{scheme} {credentials}"})
        authentication = AuthenticationInfo(scheme=scheme, credentials=credentials)
    return TaskPushNotificationConfig(
        task_id=checked_id("TASK", task_id),
        id=None if config_id is None else checked_id("--id", config_id),
        url=url,
        token=token,
        authentication=authentication,
    )


def without_secrets(config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
    """Return a configuration whose token and credentials are replaced."""
    changes: dict[str, object] = {"token": _HIDDEN} if config.token else {}
    if config.authentication is not None and config.authentication.credentials:
        hidden = config.authentication.model_copy(update={"credentials": _HIDDEN})
        changes["authentication"] = hidden
    return config.model_copy(update=changes)


def webhook_row(config: TaskPushNotificationConfig) -> tuple[str, str, str]:
    """Return the id, the URL, and what is sent with notifications."""
    sent = ["token"] if config.token else []
    if config.authentication is not None and config.authentication.scheme:
        sent.append(f"{config.authentication.scheme} credentials")
    return config.id or "(no ID)", config.url, f"with {' and '.join(sent)}" if sent else ""
