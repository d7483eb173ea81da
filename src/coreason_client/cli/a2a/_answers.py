"""What the commands that show an answer share: options for files, and running an operation."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..exits import ExitCode, Failure
from ._agent import AgentOptions

# The A2A client is imported when a command runs, so that other commands start faster.
if TYPE_CHECKING:
    from coreason_client.a2a import A2AClient, Event

    from ._saved_files import SavedFiles

    Operation: TypeAlias = Callable[[A2AClient], Generator[Event]]

__all__ = ["Force", "Save", "run", "saved_files"]

Save = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for the files of the answer.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="With --save: replace existing files.")]


def saved_files(folder: Path | None, *, force: bool) -> "SavedFiles | None":
    """Return the store for the files of an answer, None without --save.

    Raises:
        Failure: the folder cannot be created, or --force is given without it.
    """
    from ._saved_files import SavedFiles

    if folder is not None:
        return SavedFiles(folder, overwrite=force)
    if force:
        raise Failure("--force needs --save", ExitCode.USAGE)
    return None


def run(
    agent: AgentOptions,
    operation: "Operation",
    verb: str,
    files: "SavedFiles | None",
    *,
    as_json: bool,
) -> None:
    """Run an operation, show its events, and fail if its task fails.

    `verb` is the command that answers the task if it needs an answer.
    """
    from ._connect import connect
    from ._show import AnswerView

    with connect(agent) as client:
        view = AnswerView(agent, as_json=as_json, files=files)
        try:
            view.show(operation(client))
        except KeyboardInterrupt:
            view.print_next_step(verb)
            raise
    view.raise_if_failed()
    view.print_next_step(verb)
