"""`coreason a2a push`: the webhooks that an agent notifies about a task."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..output import open_output, print_stderr, show_rows
from ._agent import AgentOptions, redacting
from ._commands import PUSH_EXAMPLES, AsJson, TaskId, agent_command, push

if TYPE_CHECKING:
    from coreason_client.a2a import TaskPushNotificationConfig

__all__ = ["add", "list_", "remove"]


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
            show_default=False,
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
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook for a task.

    The token and the credentials are read from a file or from the environment, because other users
    can read command lines.
    """
    from ._connect import agent_errors, connect
    from ._webhooks import read_secret, webhook_config

    token = read_secret("--push-token-file", push_token_file, "COREASON_A2A_PUSH_TOKEN", os.environ)
    credentials = read_secret(
        "--credentials-file", credentials_file, "COREASON_A2A_PUSH_CREDENTIALS", os.environ
    )
    config = webhook_config(task_id, webhook, config_id, token, scheme, credentials)
    # The agent may quote the request in an error.
    with (
        redacting(token, credentials),
        connect(agent) as client,
        agent_errors(),
    ):
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
        removed = json.dumps({"taskId": task_id, "id": config_id})
        open_output(as_json=True).record(lambda: removed)
    else:
        print_stderr(f"removed webhook {config_id}")


def _show(configs: "Sequence[TaskPushNotificationConfig]", *, as_json: bool) -> None:
    from ._webhooks import webhook_row, without_secrets

    if as_json:
        output = open_output(as_json=True)
        for config in configs:
            output.record(without_secrets(config).to_json)
    else:
        show_rows(map(webhook_row, configs))
