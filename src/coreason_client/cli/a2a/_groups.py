"""The groups of commands: `coreason a2a`, `coreason a2a task` and `coreason a2a push`."""

import typer

from ._commands import epilog

__all__ = ["EXAMPLES", "PUSH_EXAMPLES", "TASK_EXAMPLES", "app", "push", "task"]

EXAMPLES = (
    "coreason a2a card https://agent.example",
    'coreason a2a stream https://agent.example "What is the weather in Rome?"',
    "coreason a2a chat https://agent.example",
    "coreason a2a list https://agent.example --state input-required",
    "coreason a2a push add https://agent.example 6f1d https://me.example/hook",
)
TASK_EXAMPLES = (
    "coreason a2a task get https://agent.example 6f1d",
    "coreason a2a task watch https://agent.example 6f1d",
    "coreason a2a task cancel https://agent.example 6f1d",
)
PUSH_EXAMPLES = (
    "coreason a2a push add https://agent.example 6f1d https://me.example/hook",
    "coreason a2a push list https://agent.example 6f1d",
    "coreason a2a push remove https://agent.example 6f1d 77aa",
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog(EXAMPLES),
    help="Talk to agents that use the A2A protocol, version 0.3 or 1.0.",
)
task = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog(TASK_EXAMPLES),
    help="Show, cancel or watch a task of an agent.",
)

push = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=epilog(PUSH_EXAMPLES),
    help="Add, list or remove the webhooks of a task.",
)
app.add_typer(task, name="task")
app.add_typer(push, name="push")
