"""Background responses of the Responses API: their requests, and how they are resumed. Pure.

A background response is produced whether or not anybody is connected, and its stream can be read
again from any event. The provider stores it for about ten minutes, also if the organisation has an
agreement that nothing is stored, and it is billed until it ends or is cancelled. So it is used only
if the caller asks for streams that can be resumed.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from ._call import Call
from ._profile import Profile
from ._route import Route
from .errors import LLMRequestError

__all__ = [
    "RESUMABLE_SECONDS",
    "background_body",
    "cancel_url",
    "check_resume",
    "has_background",
    "resume_url",
]

RESUMABLE_SECONDS = 600.0
"""Seconds after its creation during which a background response is stored, and can be resumed."""


def has_background(profile: Profile) -> bool:
    """Return True if a provider, in this wire format, has background responses."""
    return profile.wire == "responses" and profile.background


def check_resume(call: Call, route: Route) -> None:
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


def cancel_url(url: str, response_id: str) -> str:
    """Return the URL that cancels a background response, by POST without a body."""
    return _url(url, response_id, "/cancel", "")


def _url(url: str, response_id: str, suffix: str, query: str) -> str:
    path, _, own_query = url.partition("?")
    queries = "&".join(filter(None, (own_query, query)))
    # The id was received: quoted, it cannot lead to another path.
    response_path = f"{path}/{quote(response_id, safe='')}{suffix}"
    return f"{response_path}?{queries}" if queries else response_path
