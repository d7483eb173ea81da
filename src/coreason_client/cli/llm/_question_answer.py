"""Runs `coreason llm`: from the options to the answer, which is shown and saved."""

import sys
from base64 import b64encode
from collections.abc import Sequence
from mimetypes import guess_extension
from typing import TYPE_CHECKING, Any, TypeVar

from coreason_client import ArgumentError
from coreason_client.llm._call import audio_format

from .._attached import Attached, AttachFailure, FileText, file_content, read_attached, type_of_name
from .._load import create_client, load_object
from .._question import joined_words, question
from .._text import encodable
from ..exits import ExitCode, Failure
from ..profiles import load_profiles
from ._exchange import ModelExchange, Shown, print_continue, print_notes
from ._history import SavedConversation, check_place, open_history, without_query
from ._mcp import TerminalQuestions
from ._options import AskOptions
from ._schema import read_schema
from ._turns import context_messages, system_prompt

if TYPE_CHECKING:
    from coreason_client.llm import AsyncLLMClient, Message


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


def ask(options: AskOptions) -> None:
    """Ask the question, show the answer and save both.

    Raises:
        Failure: an option is wrong.
        LLMError: there is no answer, or it is incomplete.
        KeyboardInterrupt: the user stopped it; what was received is saved.
    """
    # Whatever can be wrong with the options is found before the question is read.
    model, system = with_profile(options.profile, options.model, options.system)
    temperature = number_or_none(options.temperature, "--temperature", float)
    max_tokens = number_or_none(options.max_tokens, "--max-tokens", int)
    response_format = None if options.schema is None else read_schema(options.schema)
    questions = TerminalQuestions()
    tools = [load_object(name, "--tool", "my_module:get_weather") for name in options.tool or ()]
    tools += map(questions.server, options.mcp or ())
    history = open_history(
        continue_last=options.continue_last, cid=options.cid, saves=not options.no_log
    )
    client = create_client(options.base_url)
    model = _model(model, history, client)
    system = system_prompt(history.turns, system)
    user = _user_message(options)
    call = {
        "messages": [*context_messages(history.turns, system), user],
        "model": model,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "response_format": response_format,
    }
    notes = options.verbose > 0 or sys.stderr.isatty()
    exchange = ModelExchange(client, call, tools, questions, notes)
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
    print_notes(response, model, usage=notes)


def _model(given: str | None, history: SavedConversation, client: "AsyncLLMClient") -> str:
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


def _user_message(options: AskOptions) -> "Message":
    attached = read_attached(options.attach or ())
    text = question(
        joined_words(options.words),
        optional=bool(attached),
        stdin_is_used="-" in (options.attach or ()),
    )
    return user_message(text, attached)


# The message of the user. A file that is text becomes text; other files become parts of the kinds
# image, audio and file. A URL is passed on for the provider to fetch; its type follows from the
# name in its path.

Part = dict[str, Any]


def user_message(question: str, attached: Sequence[Attached]) -> dict[str, Any]:
    """Return the message; the attachments precede the question.

    Raises:
        Failure: the type of an attachment is unknown.
    """
    parts = [_part(one) for one in attached]
    if question:
        parts.append(_text(encodable(question)))
    if all(part["type"] == "text" for part in parts):
        # Some servers understand only plain text.
        return {"role": "user", "content": "\n\n".join(part["text"] for part in parts)}
    return {"role": "user", "content": parts}


def _part(attached: Attached) -> Part:
    if attached.content is None:
        return _url_part(attached.name, attached.filename)
    return _file_part(attached, attached.content)


def _url_part(url: str, filename: str) -> Part:
    media_type = type_of_name(filename)
    if media_type is None:
        raise AttachFailure(
            url,
            "the name in the URL does not show a type; download the file and attach it,"
            " for example with: curl URL | coreason llm -a - …",
        )
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if media_type.startswith("audio/"):
        raise AttachFailure(url, "providers do not fetch audio; download the file and attach it")
    return {"type": "file", "file": {"file_url": url, "filename": filename}}


def _file_part(attached: Attached, content: bytes) -> Part:
    found = file_content(attached, content)
    if isinstance(found, FileText):
        return _text(found.text)
    media_type, filename = found.media_type, attached.filename
    data = b64encode(content).decode()
    kind = media_type.partition("/")[0]
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    if kind == "audio":
        audio = {"data": data, "format": audio_format(media_type)}
        return {"type": "input_audio", "input_audio": audio}
    if attached.name == "-":
        filename += guess_extension(media_type) or ""  # some providers need it
    file_data = f"data:{media_type};base64,{data}"
    return {"type": "file", "file": {"file_data": file_data, "filename": filename}}


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


T = TypeVar("T", int, float)


def number_or_none(text: str, option: str, kind: type[T]) -> T | None:
    """Return the number in a text, or None for "none".

    Raises:
        ArgumentError: it is neither.
    """
    if text.strip().lower() == "none":
        return None
    # Python's own rules also accept 1_000 and digits of other scripts.
    if text.isascii() and "_" not in text:
        try:
            return kind(text)
        except ValueError:
            pass
    rule = "must be a whole number, or none" if kind is int else "must be a number, or none"
    raise ArgumentError(option, rule, text)
