"""The request and the reply of `count_tokens`. No I/O.

OpenAI counts the input of its Responses API, also for a call that uses chat completions. At other
providers without a count the number is estimated, as for limits and budgets.
"""

from ._answer import Malformed
from ._call import ModelCall
from ._json import count, encode_body
from ._plan import SidePlan, estimated_prompt, fit_call
from ._reply import JSONReply, reply_reader
from ._route import ModelRoute
from .providers import ADAPTERS
from .types import TokenCount

_GENERATE = ":generateContent"
# The end of the URL, and the fields of a request that may be sent.
_COUNTS = {
    "openai": ("/input_tokens", ("model", "input", "instructions", "tools")),
    "anthropic": ("/count_tokens", ("model", "messages", "system", "tools")),
}


def count_plan(call: ModelCall, route: ModelRoute) -> SidePlan | None:
    """Return the request that counts the tokens of a call, None if the provider has none.

    Raises:
        LLMRequestError: the provider cannot express the call.
    """
    name, profile = route.profile.name, route.profile
    adapter = ADAPTERS["responses"] if name == "openai" else route.adapter
    call = fit_call(call, adapter, profile)
    url, body = adapter.url(route.base, call), adapter.body(call, profile)
    if name in _COUNTS:
        end, fields = _COUNTS[name]
        url += end
        body = {field: body[field] for field in fields if field in body}
    elif name == "gemini" and url.endswith(_GENERATE):
        path = url.removesuffix(_GENERATE)
        url, model = f"{path}:countTokens", "/".join(path.rsplit("/", 2)[1:])
        body = {"generateContentRequest": {"model": model, **body}}
    else:
        return None
    return SidePlan(route, url, encode_body(body, call.model))


def estimated_count(call: ModelCall) -> TokenCount:
    """Return an estimate of the tokens of a call."""
    sent = {"messages": call.messages, "tools": call.tools}
    tokens = estimated_prompt(encode_body({k: v for k, v in sent.items() if v}, call.model))
    return {"tokens": tokens, "estimated": True}


@reply_reader
def read_count(plan: SidePlan, reply: JSONReply) -> TokenCount:
    """Return the count in a reply."""
    tokens = count(reply.value.get("input_tokens", reply.value.get("totalTokens")))
    if tokens is None:
        raise Malformed("it has no number of tokens")
    return {"tokens": tokens, "estimated": False}
