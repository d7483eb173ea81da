"""The requests of `embed`, and their flow until all texts have their vectors. No I/O.

A call with more texts than the provider accepts in one request is sent as several requests, one
after another. Each has its own retries; the deadline is that of the call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._drive import Flow
from ._answer import Malformed, Tokens, add_usages, estimate
from ._argument_errors import check_text, invalid
from ._attempts import Attempts
from ._classify import request_id
from ._cost import cost
from ._json import encode_body, with_query
from ._plan import KeyFetcher, Pricing, RequestPlan, estimated_prompt
from ._reply import JSONReply, call_flow, reply_reader
from ._route import ModelRoute
from .errors import LLMRequestError
from .providers.embeddings import EMBEDDINGS, EmbedCall, EmbedFormat
from .types import EmbeddingResponse, Usage

# Vectors with another number of dimensions than requested would be wrong.
_REQUIRED = frozenset(
    {
        *("model", "input", "requests", "instances", "texts", "inputText", "input_type"),
        *("content", "embedContentConfig", "embedding_types"),
        *("dimensions", "output_dimension", "parameters"),
    }
)


_MOST_DIMENSIONS = 2**20


def check_embed(texts: Any, model: Any, dimensions: Any = None, extra: Any = None) -> EmbedCall:
    """Return the call that the arguments of `embed` describe.

    Raises:
        LLMRequestError: an argument is wrong; the message names it.
    """
    if not isinstance(model, str) or not model.strip():
        raise invalid("model", "must be the name of a model", model)
    if dimensions is not None and (
        isinstance(dimensions, bool)
        or not isinstance(dimensions, int)
        or not 0 < dimensions <= _MOST_DIMENSIONS
    ):
        rule = f"must be a whole number from 1 to {_MOST_DIMENSIONS}, or None"
        raise invalid("dimensions", rule, dimensions)
    if extra is not None and (
        not isinstance(extra, Mapping) or not all(isinstance(key, str) for key in extra)
    ):
        raise invalid("extra", "must be an object of fields for the provider", extra)
    return EmbedCall(model, _texts(texts), dimensions, extra or {})


def _texts(texts: Any) -> list[str]:
    if isinstance(texts, str):
        return [_text("input", texts)]
    if not isinstance(texts, list | tuple):
        raise invalid("input", "must be text or a list of texts", texts)
    if not texts:
        raise LLMRequestError("input must have at least one text, got an empty list")
    return [_text(f"input[{index}]", text) for index, text in enumerate(texts)]


def _text(where: str, text: Any) -> str:
    checked = check_text(where, text)
    if not checked:
        raise LLMRequestError(f"{where} must not be empty: providers reject an empty text")
    return checked


@dataclass(slots=True)
class EmbedPlan(RequestPlan):
    """The texts of one request, its route and the encoded request.

    `requested_model` is the name that the caller used.
    """

    call: EmbedCall
    route: ModelRoute
    requested_model: str = ""
    pricing: Pricing = cost
    format: EmbedFormat = field(init=False)
    body: dict[str, Any] = field(init=False)
    content: bytes = field(init=False)
    url: str = field(init=False)
    _fetcher: KeyFetcher | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.format = embed_format(self.route)
        self.body = self.format.body(self.call, self.route.profile)
        self.url = with_query(self.format.url(self.route.base, self.call), self.route.query)
        self.content = encode_body(self.body, self.call.model)

    @property
    def estimated_tokens(self) -> int:
        """An estimate of the tokens of the texts: a quarter of the bytes of the body."""
        return estimated_prompt(self.content)

    def drop_parameter(self, parameter: str) -> bool:
        """Drop a parameter that the provider rejects; return False if it must stay."""
        if parameter not in self.body or parameter in _REQUIRED:
            return False
        del self.body[parameter]
        self.content = encode_body(self.body, self.call.model)
        return True


def embed_format(route: ModelRoute) -> EmbedFormat:
    """Return the embedding format of a provider.

    Raises:
        LLMRequestError: it has none.
    """
    found = EMBEDDINGS.get(route.profile.embeddings or route.profile.wire)
    if found is None:
        raise route.error(
            LLMRequestError,
            f"{route.profile.name} has no embeddings: use a model of another provider, such as "
            "openai/text-embedding-3-small",
        )
    return found


def embed_flow(
    attempts: Attempts[EmbedPlan], plans: Sequence[EmbedPlan]
) -> Flow[list[EmbeddingResponse]]:
    """Send the requests of a call, and return the response to each; `attempts` has the first.

    Raises:
        LLMError: no attempt of a request succeeded.
    """
    responses: list[EmbeddingResponse] = []
    for plan in plans:
        if plan is not attempts.plan:
            plan.route = attempts.plan.route  # with its key, if a callable returned it
            attempts.continue_with(plan)
        response = yield from call_flow(attempts, read_embeddings)
        responses.append(attempts.record_success(response))
    return responses


@reply_reader
def read_embeddings(plan: EmbedPlan, reply: JSONReply) -> EmbeddingResponse:
    """Return the response object in a reply."""
    embedded = plan.format.read(reply.value, reply.head.headers)
    if len(embedded.vectors) != len(plan.call.texts):
        raise Malformed(
            f"it has {len(embedded.vectors)} embeddings for {len(plan.call.texts)} texts"
        )
    return {
        "status": "success",
        "data": {"embeddings": embedded.vectors},
        "usage": _usage(plan, embedded.tokens),
        "model": plan.requested_model,
        "provider": plan.route.profile.name,
        "request_id": request_id(reply.head),
        "seconds": 0.0,  # set when the request ends
    }


def _usage(plan: EmbedPlan, tokens: Tokens | None) -> Usage:
    """Return the usage; tokens that the provider did not count are estimated."""
    counted = Tokens(estimate(plan.call.texts), 0) if tokens is None else tokens
    prompt = counted.prompt or 0
    usage: Usage = {
        "prompt_tokens": prompt,
        "completion_tokens": 0,
        "total_tokens": prompt,
        "cost_estimate": plan.price(counted),
    }
    if tokens is None:
        usage["estimated"] = True
    return usage


def joined(responses: Sequence[EmbeddingResponse]) -> EmbeddingResponse:
    """Return one response for the requests of a call, of which there is at least one."""
    *_, last = responses
    if len(responses) == 1:
        return last
    vectors = [vector for one in responses for vector in one["data"]["embeddings"]]
    return {
        **last,
        "data": {"embeddings": vectors},
        "usage": add_usages([r["usage"] for r in responses]),
    }
