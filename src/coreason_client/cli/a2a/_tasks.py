"""`coreason a2a list`, `cancel` and `task`."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from coreason_client import ArgumentError

from ..output import print_stderr, show_list
from ._agent import AgentOptions
from ._commands import (
    TASK_EXAMPLES,
    AsJson,
    Force,
    Save,
    TaskId,
    agent_command,
    app,
    run,
    saved_files,
    task,
)

# The A2A client is imported when a command runs, so that other commands start faster.
if TYPE_CHECKING:
    from coreason_client.a2a import Task

_MAX_PAGE = 100  # the largest page of the protocol


@agent_command(task, TASK_EXAMPLES[:1])
def get(
    agent: AgentOptions,
    task_id: TaskId,
    save: Save = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of a task.

    The exit code is 0 whatever the state is.
    """
    from ._connect import connect
    from ._ids import checked_id
    from ._show import AnswerView

    checked = checked_id("TASK", task_id)
    files = saved_files(save, force=force)
    with connect(agent) as client:
        view = AnswerView(agent, as_json=as_json, tracks_task=False, files=files)
        view.show(_one(partial(client.get_task, checked)))
    view.raise_if_failed()
    status = view.presenter.status
    if status is not None and status.is_interrupted:
        view.print_next_step("send")


def _one(call: "Callable[[], Task]") -> "Iterator[Task]":
    """Yield what a call returns, which is made when the output is open."""
    yield call()


@agent_command(task, TASK_EXAMPLES[1:2])
def watch(
    agent: AgentOptions,
    task_id: TaskId,
    save: Save = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show a task and follow it until it ends.

    Also stops when the task needs an answer. What it has produced so far is shown first.
    """
    from ._ids import checked_id

    checked = checked_id("TASK", task_id)
    files = saved_files(save, force=force)
    run(agent, lambda client: client.resubscribe(checked), "stream", files, as_json=as_json)


@agent_command(app, ("coreason a2a cancel https://agent.example 6f1d",))
@agent_command(task, TASK_EXAMPLES[2:])
def cancel(agent: AgentOptions, task_id: TaskId, as_json: AsJson = False) -> None:
    """Cancel a task and show its new state."""
    from ._connect import connect
    from ._ids import checked_id
    from ._show import AnswerView

    checked = checked_id("TASK", task_id)
    with connect(agent) as client:
        view = AnswerView(agent, as_json=as_json, tracks_task=False)
        view.show(_one(partial(client.cancel_task, checked)))


@agent_command(
    app,
    (
        "coreason a2a list https://agent.example",
        "coreason a2a list https://agent.example --state input-required",
        "coreason a2a list https://agent.example --json --limit 500 | jq -r .id",
    ),
)
def list_(
    agent: AgentOptions,
    context_id: Annotated[
        str | None, typer.Option("--context", metavar="ID", help="Only tasks of this conversation.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only tasks in this state, such as input-required."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Largest number of tasks to list.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the tasks of an agent, the latest first.

    Each with its ID, state, time of the last change, and first words. Needs protocol 1.0.
    """
    from ._connect import agent_errors, connect
    from ._events import parse_state, task_row
    from ._ids import MessageIds

    if limit < 1:
        raise ArgumentError("--limit", "must be greater than 0", limit)
    context_id = MessageIds.from_options(context_id, None).context_id
    status = None if state is None else parse_state(state)
    with connect(agent) as client, agent_errors("the tasks cannot be listed"):
        # One more than the limit, to find out whether there are more.
        found = client.iter_tasks(
            context_id=context_id, status=status, page_size=min(limit + 1, _MAX_PAGE)
        )
        row = partial(task_row, local_time=sys.stdout.isatty())
        show_list(islice(found, limit), lambda one: one.to_json(), row, as_json=as_json)
        if next(found, None) is not None:
            print_stderr(f"there are more tasks than --limit {limit}")
