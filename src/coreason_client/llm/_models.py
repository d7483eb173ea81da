"""The flow of `models`: the pages of a provider's list of models. No I/O."""

from dataclasses import dataclass, field
from typing import ClassVar

from .._drive import Flow
from ._attempts import Attempts
from ._cost import cost
from ._json import with_query
from ._plan import KeyFetcher, Pricing, RequestPlan
from ._reply import JSONReply, call_flow, reply_reader
from ._route import ModelRoute
from .errors import LLMRequestError
from .providers.model_lists import MODEL_LISTS, ModelFormat, ModelPage
from .types import ModelInfo

_MAX_PAGES = 100  # a server that sends more repeats itself


@dataclass(slots=True)
class ModelsPlan(RequestPlan):
    """The request for one page of a list of models.

    Raises:
        LLMRequestError: the provider has no such list.
    """

    method: ClassVar[str] = "GET"

    route: ModelRoute
    cursor: str | None = None
    requested_model: str = ""
    pricing: Pricing = cost
    content: bytes = b""
    format: ModelFormat = field(init=False)
    url: str = field(init=False)
    _fetcher: KeyFetcher | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        found = MODEL_LISTS.get(self.route.profile.wire)
        if found is None:
            raise LLMRequestError(
                f"{self.route.profile.name} has no list of models that this client can read",
                provider=self.route.profile.name,
            )
        self.format = found
        self.url = with_query(found.url(self.route.base, self.cursor), self.route.query)

    @property
    def estimated_tokens(self) -> int:
        """No tokens: a list costs nothing."""
        return 0


def models_flow(attempts: Attempts[ModelsPlan]) -> Flow[list[ModelInfo]]:
    """Send the requests for all pages, and return the models.

    Raises:
        LLMError: no attempt for a page succeeded.
    """
    models: list[ModelInfo] = []
    for _ in range(_MAX_PAGES):
        page = yield from call_flow(attempts, read_page)
        models += page.models
        if page.cursor is None or page.cursor == attempts.plan.cursor:
            break
        attempts.continue_with(ModelsPlan(attempts.plan.route, page.cursor))
    return models


def _page(plan: ModelsPlan, reply: JSONReply) -> ModelPage:
    return plan.format.read(reply.value, plan.route.profile.name)


read_page = reply_reader(_page, accepted=(dict, list))
"""Returns the page in a reply, or the failure."""
