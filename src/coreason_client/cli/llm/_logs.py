"""`coreason llm logs`: the saved conversations."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from coreason_client import ArgumentError

from .._logs import show_logs
from .._text import as_local_time, shortened, usage_line
from ..exits import ExitCode, Failure, epilog, exit_codes
from ..output import Output, open_output, print_stderr, show_list
from ._options import complete_conversation
from ._turns import SavedTurn, Summary, text_of

LOGS_EPILOG = epilog(
    "coreason llm logs",
    'coreason llm logs -n 3 -q "commit message"',
    "coreason llm logs --cid 3f9a",
    "coreason llm logs --cid 3f9a --json | jq .usage",
    "coreason llm logs --delete 3f9a",
)


def logs(
    cid: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Show this conversation; the beginning of its ID is enough.",
            autocompletion=complete_conversation,
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option("-n", metavar="N", help="Number of conversations, or of turns; 0 shows all."),
    ] = 10,
    query: Annotated[
        str, typer.Option("-q", metavar="TEXT", help="Only those that contain this text.")
    ] = "",
    delete: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Delete this conversation.", autocompletion=complete_conversation
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object per line.")] = False,
) -> None:
    """List the saved conversations, or show or delete one.

    The latest is the first in the list, and the last turn of a conversation is at the end.
    """
    with exit_codes():
        show_logs()
        if count < 0:
            raise ArgumentError("-n", "must be 0 or more", count)
        if delete is not None:
            if cid is not None:
                raise Failure("--cid and --delete cannot be used together", ExitCode.USAGE)
            _delete(delete)
        elif cid is not None:
            _show(cid, count, query, as_json=as_json)
        else:
            _list(count, query, as_json=as_json)


def _delete(prefix: str) -> None:
    from ._history import default_store, find_conversation

    store = default_store()
    conversation = find_conversation(store, prefix, "--delete")
    store.delete(conversation)
    print_stderr(f"deleted {conversation}")


def _list(count: int, query: str, *, as_json: bool) -> None:
    from ._history import default_store

    store = default_store()
    # One more than the limit, to find out whether there are more.
    found = store.conversations(count + 1 if count else -1, query)
    listed = found[:count] if count else found
    row = partial(summary_row, local_time=sys.stdout.isatty())
    show_list(listed, summary_json, row, as_json=as_json)
    if len(found) > len(listed):
        print_stderr(f"there are more conversations than -n {count}")
    elif not found:
        print_stderr(f"no conversations {'with this text ' if query else ''}in {store.path}")


def _show(prefix: str, count: int, query: str, *, as_json: bool) -> None:
    from ._history import default_store, find_conversation

    store = default_store()
    turns = store.turns(find_conversation(store, prefix))
    found = [turn for turn in turns if matches(turn, query)]
    chosen = found[-count:]
    with open_output(as_json=as_json) as output:
        for index, turn in enumerate(chosen):
            if as_json:
                output.record(partial(turn_json, turn))
            else:
                output.lines([""] if index else [])
                _show_turn(output, turn)
    if len(found) > len(chosen):
        print_stderr(f"there are more turns than -n {count}")
    elif not found:
        print_stderr("no turns with this text")


def _show_turn(output: Output, turn: "SavedTurn") -> None:
    from ._turns import text_of

    output.lines([heading(turn, local_time=sys.stdout.isatty())])
    for message in turn.messages:
        if message.get("role") == "assistant" and (text := text_of(message.get("content"))):
            output.block(text)
        if lines := list(message_lines(message)):
            output.lines(lines)


# Rows, text and JSON


def summary_row(one: Summary, *, local_time: bool) -> tuple[str, str, str, str, str]:
    """Return the id, the time, the model, the number of turns and the first question."""
    time = as_local_time(one.time) if local_time else one.time
    turns = "1 turn" if one.turns == 1 else f"{one.turns} turns"
    return one.conversation, time, one.model, turns, shortened(one.question)


def summary_json(one: Summary) -> str:
    """Return a conversation of a list as one line."""
    return json.dumps(asdict(one), ensure_ascii=False)


def turn_json(turn: SavedTurn) -> str:
    """Return a turn with all its messages as one line."""
    return json.dumps(asdict(turn), ensure_ascii=False)


def matches(turn: SavedTurn, text: str) -> bool:
    """Return True if the question or the answer contains a text, in upper or lower case."""
    return text.casefold() in f"{turn.question}\n{turn.answer}".casefold()


def heading(turn: SavedTurn, *, local_time: bool) -> str:
    """Return a line with the time, the model, the tokens and the cost of a turn."""
    time = as_local_time(turn.time) if local_time else turn.time
    known = {"prompt_tokens", "completion_tokens"} <= turn.usage.keys()
    used = usage_line(turn.model, turn.usage) if known else turn.model
    return f"{time}  {used}{'' if turn.complete else ', incomplete'}"


def message_lines(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a message that are not the answer: question, attachments and tools."""
    role, content = message.get("role"), message.get("content")
    if role == "user":
        for part in content if isinstance(content, list) else ():
            if part.get("type") != "text":
                yield f"> [{_described(part)}]"
        yield from (f"> {line}" for line in text_of(content).splitlines())
    elif role == "tool":
        yield f"← {shortened(text_of(content))}"
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments")
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield "→ " + shortened(f"{function.get('name')} {given}")


def _described(part: Mapping[str, Any]) -> str:
    """Return the name of an attachment, or its URL, or its type."""
    content = part.get(str(part.get("type")))
    fields = content if isinstance(content, Mapping) else {}
    name = fields.get("filename") or fields.get("url") or fields.get("format")
    if not isinstance(name, str):
        return str(part.get("type"))
    return name.partition(";base64,")[0].removeprefix("data:")
