"""`EmbedPlan`: the encoded request for the embeddings of some texts."""

from dataclasses import dataclass, field
from typing import Any

from ._cost import cost
from ._embed_call import EmbedCall
from ._embed_format import EmbedFormat
from ._key_fetch import KeyFetcher
from ._request_body import encode_body, with_query
from ._request_plan import Pricing, RequestPlan, estimated_prompt
from ._route import Route
from .errors import LLMRequestError
from .providers.embeddings import EMBEDDINGS

__all__ = ["EmbedPlan", "embed_format"]

# Vectors with another number of dimensions than requested would be wrong.
_REQUIRED = frozenset(
    {
        *("model", "input", "requests", "instances", "texts", "inputText", "input_type"),
        *("dimensions", "output_dimension", "parameters"),
    }
)


def embed_format(route: Route) -> EmbedFormat:
    """Return the embedding format of a provider.

    Raises:
        LLMRequestError: it has none.
    """
    found = EMBEDDINGS.get(route.profile.wire)
    if found is None:
        raise LLMRequestError(
            f"{route.profile.name} has no embeddings: use a model of another provider, such as "
            "openai/text-embedding-3-small",
            provider=route.profile.name,
            model=route.model,
        )
    return found


@dataclass(slots=True)
class EmbedPlan(RequestPlan):
    """The texts of one request, its route and the encoded request.

    `requested_model` is the name that the caller used.
    """

    call: EmbedCall
    route: Route
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
