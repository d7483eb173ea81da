"""The flow of `embed`: requests until all texts have their vectors. No I/O.

A call with more texts than the provider accepts in one request is sent as several requests, one
after another. Each has its own retries; the deadline is that of the call.
"""

from collections.abc import Sequence

from .._drive import Flow, Reply
from .._http._types import TransportFailure
from ._answer import Tokens
from ._attempts import Attempts
from ._classify import Failure, malformed_failure, request_id
from ._embed_plan import EmbedPlan
from ._fault import Malformed
from ._generate import call_flow
from ._json_reply import json_reply
from ._token_estimate import estimate
from ._usage_sum import add_usages
from .types import EmbeddingResponse, Usage

__all__ = ["embed_flow", "joined", "read_embeddings"]


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


def read_embeddings(
    plan: EmbedPlan, result: Reply | TransportFailure | None, seconds: float
) -> EmbeddingResponse | Failure:
    """Return the response object in a reply, or the failure; `seconds` was the timeout."""
    route = plan.route
    reply = json_reply(route, result, seconds)
    if isinstance(reply, Failure):
        return reply
    try:
        embedded = plan.format.read(reply.value, reply.head.headers)
        if len(embedded.vectors) != len(plan.call.texts):
            raise Malformed(
                f"it has {len(embedded.vectors)} embeddings for {len(plan.call.texts)} texts"
            )
    except Malformed as error:
        return malformed_failure(route, reply.head, error, reply.body)
    return {
        "status": "success",
        "data": {"embeddings": embedded.vectors},
        "usage": _usage(plan, embedded.tokens),
        "model": plan.requested_model,
        "provider": route.profile.name,
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
