"""Answers that go on: after a given beginning, after a break, or in the background. Pure.

The last message of a call is the beginning of the answer: an assistant message with
`"prefix": True`. The rules:

* Which providers and models accept it, and in which form, is data (`providers/profiles.py`).
* The beginning is sent without white space at its end, which some providers reject. The same white
  space is removed from the start of the continuation, so the given beginning and the continuation
  together are the answer.
* A provider that repeats the beginning is known too: the repetition is removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from ._adapter import Piece
from ._answer import ModelAnswer, estimate_text
from ._call import ModelCall
from ._profile import ProviderProfile
from ._route import ModelRoute
from .errors import LLMRequestError
from .types import Citation, CitationDelta, Message, TextDelta

FIELDS: Mapping[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
"""The fields of a request to vLLM and llama.cpp whose last message is to be continued."""


def prefix_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the beginning of the answer that a call contains, None if there is none."""
    last = messages[-1]
    return last["content"] if "prefix" in last else None


def accepts_prefix(profile: ProviderProfile, model: str) -> bool:
    """Return True if a model can continue a given beginning of its answer."""
    if profile.prefix_form is None:
        return False
    return not profile.prefix_models or model.startswith(profile.prefix_models)


def check_continuation(profile: ProviderProfile, model: str) -> None:
    """Check that a model can continue a given beginning of its answer.

    Raises:
        LLMRequestError: it cannot.
    """
    if not accepts_prefix(profile, model):
        raise LLMRequestError(
            f"the model {model!r} of {profile.name} cannot continue a given beginning of its "
            "answer: leave out the message with prefix",
            model=model,
        )


def continuation_base(base: str, profile: ProviderProfile) -> str:
    """Return the base URL for a continuation, which is another one at some providers."""
    parts = urlsplit(base)
    if not profile.prefix_path or parts.hostname not in profile.hosts:
        return base
    return f"{parts.scheme}://{parts.netloc}{profile.prefix_path}"


def continuation_fields(prefix: str | None, profile: ProviderProfile) -> Mapping[str, Any]:
    """Return the fields that a request needs, so that the last message is continued."""
    wanted = profile.prefix_form == "continue_final_message" and prefix and prefix.strip()
    return FIELDS if wanted else {}


def sent_messages(messages: Sequence[Message], profile: ProviderProfile) -> Sequence[Message]:
    """Return the messages to send: the beginning without white space at its end."""
    prefix = prefix_of(messages)
    if prefix is None:
        return messages
    last = {key: value for key, value in messages[-1].items() if key != "prefix"}
    last["content"] = prefix.rstrip()
    if profile.prefix_form == "flag":
        last["prefix"] = True
    return [*messages[:-1], last] if last["content"] else messages[:-1]


class Continuation:
    """Removes from an answer what the given beginning already has.

    Text is held back only as long as it may be a repetition.
    """

    __slots__ = ("_held", "_new", "_repeated", "_space")

    def __init__(self, prefix: str, *, repeats: bool) -> None:
        sent = prefix.rstrip()
        self._space = prefix[len(sent) :]
        self._repeated = sent if repeats else ""
        self._held = ""
        self._new: list[str] = []

    @property
    def text(self) -> str:
        """The new text that `pieces` has returned."""
        return "".join(self._new)

    def add(self, text: str) -> str:
        """Return the new part of the answer so far, which may be empty."""
        if not self._repeated and not self._space:
            return text
        text, self._held = self._held + text, ""
        if self._repeated:
            if text.startswith(self._repeated):
                text = text[len(self._repeated) :]
            elif self._repeated.startswith(text):
                self._held = text
                return ""
            self._repeated = ""
        return self._without_space(text)

    def _without_space(self, text: str) -> str:
        """Remove the white space that the beginning ends with."""
        while text and self._space:
            if text[0] != self._space[0]:
                self._space = ""
            else:
                text, self._space = text[1:], self._space[1:]
        return text

    def flush(self) -> str:
        """Return the text that was held back, at the end of the answer."""
        text, self._held = self._held, ""
        return text

    def pieces(self, received: Sequence[Piece]) -> list[Piece]:
        """Return the new part of received pieces."""
        new: list[Piece] = []
        for piece in received:
            if isinstance(piece, TextDelta):
                text = self.add(piece.text)
                if text:
                    self._new.append(text)
                    new.append(TextDelta(text))
            elif isinstance(piece, CitationDelta):
                new.append(CitationDelta(without_range(piece.citation)))
            else:
                new.append(piece)
        return new


def continued(answer: ModelAnswer, prefix: str | None, profile: ProviderProfile) -> ModelAnswer:
    """Return the answer without what the given beginning already has."""
    if prefix is None or not answer.content:
        return answer
    rest = Continuation(prefix, repeats=profile.repeats_prefix)
    cited = [without_range(citation) for citation in answer.citations]
    return replace(answer, content=rest.add(answer.content) + rest.flush(), citations=cited)


def without_range(citation: Citation) -> Citation:
    """Return a citation without its range, for an answer whose text has changed."""
    placed = {key: value for key, value in citation.items() if key not in ("start", "end")}
    return cast("Citation", placed)


# Calls that follow an answer which broke or is not valid.
#
# * Continuation. The text so far is sent as the beginning of the answer, for the model to continue
#   it. What was produced is subtracted from `max_tokens`. Only plain text is continued: not a tool
#   call, not reasoning, not JSON.
# * Correction. An answer that does not match `response_format` is sent back with the reason.


def is_plain_text(call: ModelCall, received: ModelAnswer) -> bool:
    """Return True if what was received of an answer is text that a model can continue."""
    beside = received.calls or received.reasoning or received.media
    only_text = not (beside or received.citations or received.tool_results)
    return call.schema is None and only_text and bool(received.content)


def continued_call(call: ModelCall, text: str) -> ModelCall:
    """Return the call that continues an answer after the given text.

    `call` is that of the whole answer, which may itself have a given beginning.
    """
    given = prefix_of(call.messages)
    before = call.messages if given is None else call.messages[:-1]
    beginning: Message = {"role": "assistant", "content": (given or "") + text, "prefix": True}
    left = None if call.max_tokens is None else max(1, call.max_tokens - estimate_text(text))
    return replace(call, messages=[*before, beginning], max_tokens=left)


def corrected_call(call: ModelCall, answer: str, reason: str) -> ModelCall:
    """Return the call that asks the model to correct its answer."""
    asked = (
        f"This answer is not valid: it {reason}\n\n"
        "Send the complete, corrected answer, and nothing else."
    )
    messages = [
        *call.messages,
        {"role": "assistant", "content": answer or "(empty)"},
        {"role": "user", "content": asked},
    ]
    return replace(call, messages=messages)


# Background responses of the Responses API: their requests, and how they are resumed.
#
# A background response is produced whether or not anybody is connected, and its stream can be read
# again from any event. The provider stores it for about ten minutes, also if the organisation has
# an agreement that nothing is stored, and it is billed until it ends or is cancelled. So it is used
# only if the caller asks for streams that can be resumed.

RESUMABLE_SECONDS = 600.0
"""Seconds after its creation during which a background response is stored, and can be resumed."""


def has_background(profile: ProviderProfile) -> bool:
    """Return True if a provider, in this wire format, has background responses."""
    return profile.wire == "responses" and profile.background


def check_resume(call: ModelCall, route: ModelRoute) -> None:
    """Check that a call can have a stream that is resumed.

    Raises:
        LLMRequestError: it cannot.
    """
    if not call.stream:
        raise LLMRequestError("resume must be left out: only a stream can be resumed")
    if has_background(route.profile):
        return
    name = route.profile.name
    if route.profile.background:
        advice = f'create the client with wire="responses", since {name} resumes only that API'
    else:
        advice = f"leave it out, since streams of {name} cannot be resumed"
    raise LLMRequestError(
        f"resume=True is not possible for model {call.model!r}: {advice}",
        provider=name,
        model=call.model,
    )


def background_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a background response that is streamed."""
    return {**body, "background": True, "store": True, "stream": True}


def resume_url(
    url: str, response_id: str, sequence: int | None, include: Sequence[str] = ()
) -> str:
    """Return the URL to read a stream from, by GET.

    Args:
        url: the URL to which the request for the response was sent.
        response_id: the id of the response.
        sequence: the number of the last event that was read, None to read all events.
        include: the field `include` of the body of the request, without which the rest of the
            stream would lack encrypted reasoning.
    """
    query = {"stream": "true", "starting_after": sequence, "include[]": list(include)}
    given = {name: value for name, value in query.items() if value not in (None, [])}
    return _url(url, response_id, "", urlencode(given, doseq=True))


def poll_url(url: str, response_id: str, include: Sequence[str] = ()) -> str:
    """Return the URL to read a background response from, by GET; the arguments are as above."""
    return _url(url, response_id, "", urlencode({"include[]": list(include)}, doseq=True))


def cancel_url(url: str, response_id: str) -> str:
    """Return the URL that cancels a background response, by POST without a body."""
    return _url(url, response_id, "/cancel", "")


def _url(url: str, response_id: str, suffix: str, query: str) -> str:
    path, _, own_query = url.partition("?")
    queries = "&".join(filter(None, (own_query, query)))
    # The id was received: quoted, it cannot lead to another path.
    response_path = f"{path}/{quote(response_id, safe='')}{suffix}"
    return f"{response_path}?{queries}" if queries else response_path
