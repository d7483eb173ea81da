"""Runs `coreason llm`: from the options to the answer, which is shown and saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._attached import read_attached
from .._llm_client import create_client
from .._load import load_object
from .._question import joined_words, question
from ..exits import ExitCode, Failure
from ..profiles import load_profiles
from ._choose import check_place
from ._exchange import Exchange, Shown, print_continue, print_notes
from ._history import History, open_history, without_query
from ._parts import user_message
from ._schema import read_schema
from ._turns import context_messages, system_prompt

if TYPE_CHECKING:
    from coreason_client.llm import AsyncLLMClient, Message

__all__ = ["Options", "ask", "with_profile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `coreason llm`."""

    words: Sequence[str]
    model: str | None
    system: str | None
    attach: Sequence[str]
    schema: str | None
    tools: Sequence[str]
    continue_last: bool
    cid: str | None
    saves: bool
    temperature: float | None
    max_tokens: int | None
    base_url: str | None
    stream: bool
    as_json: bool
    show_usage: bool


def with_profile(
    name: str | None, model: str | None, system: str | None
) -> tuple[str | None, str | None]:
    """Return the model and the system prompt; those of the profile if they are not given.

    Raises:
        Failure: there is no such profile, or it has no model and none is given.
    """
    if name is None:
        return model, system
    profile = load_profiles().get(name)
    if model is None and profile.llm is None:
        raise Failure(f"profile {name!r} has no llm: give a model with -m", ExitCode.USAGE)
    return model or profile.llm, profile.system if system is None else system


def ask(options: Options) -> None:
    """Ask the question, show the answer and save both.

    Raises:
        Failure: an option is wrong.
        LLMError: there is no answer, or it is incomplete.
        KeyboardInterrupt: the user stopped it; what was received is saved.
    """
    # Whatever can be wrong with the options is found before the question is read.
    response_format = None if options.schema is None else read_schema(options.schema)
    tools = [load_object(name, "--tool", "my_module:get_weather") for name in options.tools]
    history = open_history(
        continue_last=options.continue_last, cid=options.cid, saves=options.saves
    )
    client = _client(options.base_url)
    model = _model(options.model, history, client)
    system = system_prompt(history.turns, options.system)
    user = _user_message(options)
    call = {
        "messages": [*context_messages(history.turns, system), user],
        "model": model,
        "temperature": options.temperature,
        "max_tokens": options.max_tokens,
        "response_format": response_format,
    }
    exchange = Exchange(client, call, tools)
    shown = Shown(options.stream, options.as_json, as_value=response_format is not None)
    base_url = without_query(client.base_url)

    def save() -> bool:
        turn = exchange.turn(user)
        return turn is not None and history.save(**turn, system=system, base_url=base_url)

    try:
        response = exchange.run(shown)
    except BaseException as error:
        if save() and isinstance(error, KeyboardInterrupt):
            print_continue(history.conversation, options.base_url)
        raise
    save()
    print_notes(response, model, usage=options.show_usage)


def _client(base_url: str | None) -> "AsyncLLMClient":
    return create_client() if base_url is None else create_client(base_url=base_url)


def _model(given: str | None, history: History, client: "AsyncLLMClient") -> str:
    """Return the model to ask: the one given, that of the conversation, or the default.

    Raises:
        Failure: the conversation would continue at another API.
    """
    if given is not None:
        return given
    if not history.turns:
        return client.default_model
    check_place(history.turns[-1], without_query(client.base_url))
    return history.turns[-1].model


def _user_message(options: Options) -> "Message":
    attached = read_attached(options.attach)
    text = question(
        joined_words(options.words),
        optional=bool(attached),
        stdin_is_used="-" in options.attach,
    )
    return user_message(text, attached)
