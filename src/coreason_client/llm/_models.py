"""The flow of `models`: the pages of a provider's list of models. No I/O."""

from .._drive import Flow
from ._attempts import Attempts
from ._plan import SidePlan
from ._reply import JSONReply, call_flow, reply_reader
from ._route import ModelRoute
from .providers.model_lists import MODEL_LISTS, ModelPage
from .types import ModelInfo

_MAX_PAGES = 100  # a server that sends more repeats itself


def models_plan(route: ModelRoute, cursor: str | None = None) -> SidePlan:
    """Return the request for one page of a list of models; it counts for the client's limits.

    Raises:
        LLMRequestError: the provider has no such list.
    """
    found = MODEL_LISTS.get(route.profile.wire)
    if found is None:
        raise route.profile.rejected(
            f"{route.profile.name} has no list of models that this client can read"
        )
    return SidePlan(route, found.url(route.base, cursor), method="GET", free=False)


def models_flow(attempts: Attempts[SidePlan]) -> Flow[list[ModelInfo]]:
    """Send the requests for all pages, and return the models.

    Raises:
        LLMError: no attempt for a page succeeded.
    """
    models: list[ModelInfo] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = yield from call_flow(attempts, read_page)
        models += page.models
        if page.cursor in (None, cursor):
            break
        cursor = page.cursor
        attempts.continue_with(models_plan(attempts.plan.route, cursor))
    return models


def _page(plan: SidePlan, reply: JSONReply) -> ModelPage:
    profile = plan.route.profile
    return MODEL_LISTS[profile.wire].read(reply.value, profile.name)


read_page = reply_reader(_page, accepted=(dict, list))
"""Returns the page in a reply, or the failure."""
