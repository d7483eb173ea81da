"""`coreason a2a push`: the webhooks that an agent notifies about a task."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coreason_client import ArgumentError

from ..._http._checks import VISIBLE, check_headers, check_key, check_url
from ..exits import ExitCode, Failure, reason_of
from ..output import print_json, print_stderr, show_list
from ._agent import AgentOptions, redacting
from ._commands import PUSH_EXAMPLES, AsJson, TaskId, agent_command, push

if TYPE_CHECKING:
    from coreason_client.a2a import TaskPushNotificationConfig


@agent_command(push, PUSH_EXAMPLES[:1])
def add(
    agent: AgentOptions,
    task_id: TaskId,
    webhook: Annotated[
        str, typer.Argument(metavar="WEBHOOK", help="URL that the agent sends notifications to.")
    ],
    config_id: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="ID of the webhook.", show_default="chosen by the agent"
        ),
    ] = None,
    push_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token that notifications carry in X-A2A-Notification-Token; "
            "otherwise COREASON_A2A_PUSH_TOKEN is used.",
        ),
    ] = None,
    scheme: Annotated[
        str, typer.Option(metavar="NAME", help="Scheme of the credentials.")
    ] = "Bearer",
    credentials_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the credentials that notifications carry in Authorization; "
            "otherwise COREASON_A2A_PUSH_CREDENTIALS is used.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook for a task.

    The token and the credentials are read from a file or from the environment, because other users
    can read command lines.
    """
    from ._connect import agent_errors, connect

    token = read_secret("--push-token-file", push_token_file, "COREASON_A2A_PUSH_TOKEN", os.environ)
    credentials = read_secret(
        "--credentials-file", credentials_file, "COREASON_A2A_PUSH_CREDENTIALS", os.environ
    )
    config = webhook_config(task_id, webhook, config_id, token, scheme, credentials)
    # The agent may quote the request in an error.
    with redacting(token, credentials), connect(agent) as client, agent_errors():
        _show([client.create_push_config(config.task_id or "", config)], as_json=as_json)


@agent_command(push, PUSH_EXAMPLES[1:2])
def list_(agent: AgentOptions, task_id: TaskId, as_json: AsJson = False) -> None:
    """List the webhooks of a task; tokens and credentials are not shown."""
    from ._connect import agent_errors, connect
    from ._ids import checked_id

    checked = checked_id("TASK", task_id)
    with connect(agent) as client, agent_errors():
        _show(client.list_push_configs(checked), as_json=as_json)


@agent_command(push, PUSH_EXAMPLES[2:])
def remove(
    agent: AgentOptions,
    task_id: TaskId,
    config_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the webhook.")],
    as_json: AsJson = False,
) -> None:
    """Remove a webhook of a task; removing it twice is not an error."""
    from ._connect import agent_errors, connect
    from ._ids import checked_id

    task_id, config_id = checked_id("TASK", task_id), checked_id("ID", config_id)
    with connect(agent) as client, agent_errors():
        client.delete_push_config(task_id, config_id)
    if as_json:
        print_json(json.dumps({"taskId": task_id, "id": config_id}))
    else:
        print_stderr(f"removed webhook {config_id}")


def _show(configs: "Sequence[TaskPushNotificationConfig]", *, as_json: bool) -> None:
    show_list(configs, lambda one: without_secrets(one).to_json(), webhook_row, as_json=as_json)


# The configuration of a webhook, from options, and as it is shown.

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
        raise Failure(f"{option} {file}: {reason_of(error)}", ExitCode.USAGE) from None
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
) -> "TaskPushNotificationConfig":
    """Return the configuration of a webhook.

    Raises:
        ArgumentError: an argument is invalid; the message contains no secret.
    """
    from coreason_client.a2a import TaskPushNotificationConfig
    from coreason_client.a2a.types import AuthenticationInfo

    from ._ids import checked_id

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


def without_secrets(config: "TaskPushNotificationConfig") -> "TaskPushNotificationConfig":
    """Return a configuration whose token and credentials are replaced."""
    changes: dict[str, object] = {"token": _HIDDEN} if config.token else {}
    if config.authentication is not None and config.authentication.credentials:
        hidden = config.authentication.model_copy(update={"credentials": _HIDDEN})
        changes["authentication"] = hidden
    return config.model_copy(update=changes)


def webhook_row(config: "TaskPushNotificationConfig") -> tuple[str, str, str]:
    """Return the id, the URL, and what is sent with notifications."""
    sent = ["token"] if config.token else []
    if config.authentication is not None and config.authentication.scheme:
        sent.append(f"{config.authentication.scheme} credentials")
    return config.id or "(no ID)", config.url, f"with {' and '.join(sent)}" if sent else ""
