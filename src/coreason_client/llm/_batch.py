"""Batches: the checked requests, the flow to submit them, and the reading of results. No I/O.

* A submitted batch costs money, so a submit that may have arrived is not sent again. It is retried
  only if the connection was never made, or the provider refused it for now (429, 503, 529). The
  upload of OpenAI's input file before it is retried as usual: a file costs nothing.
* The id of a batch is the model, as the caller named it, `#`, and the provider's id. With it any
  process that has the key can follow the batch.
* Results are read line by line, in the order of the provider's files. If the connection breaks, the
  file is read again, and the lines that were delivered are skipped.
* A result is read like the reply to a single call, and has the price of a batch.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from .._clock import monotonic
from .._drive import Flow, Reply, Step
from .._http._types import Headers, ResponseHead, TransportFailure
from .._retry import Backoff
from ._answer import Malformed
from ._argument_errors import invalid, is_number
from ._attempts import Attempts
from ._check_call import check_call
from ._classify import FailedAttempt, connection_failure, http_failure, malformed_failure
from ._client_core import NO_OPTIONS, ClientCore, side_route, take_own_options
from ._cost import batch_cost
from ._files import form_plan, read_id
from ._frames import MAX_ANSWER_BYTES, LineDecoder, LineTooLong
from ._json import encode, encode_body, mapping, parse_or_none
from ._plan import CallPlan, SidePlan
from ._reply import JSONReply, call_flow, read_reply, reply_reader
from ._route import ModelRoute
from .errors import LLMError, LLMRequestError, LLMTimeoutError
from .providers.batches import BATCHES, BatchFormat, FoundBatch, check_id, endpoint_of, input_file
from .types import Response

_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DEFAULTS = {"tools": None, "temperature": 0.7, "max_tokens": 2000, "response_format": None}
_NOT_CREATED = frozenset({429, 503, 529})  # the same request may succeed later
_POLLING = Backoff(first=5.0, longest=60.0, spread=0.25)
_UNCERTAIN = (
    "; the batch may have been created: look at the provider's list of batches before you submit "
    "it again"
)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one request of a batch: a response, or the error.

    Attributes:
        id: the id of the request.
        response: the response, as `generate` returns it, with the price of a batch; None if there
            is an error.
        error: the error that `generate` would raise; None if there is a response.
    """

    id: str
    response: Response | None
    error: LLMError | None


ReadLine = Callable[[Any], BatchResult]


def batch_format(route: ModelRoute) -> BatchFormat:
    """Return the format of batches of a provider.

    Raises:
        LLMRequestError: it has none.
    """
    found = BATCHES.get(route.profile.name)
    if found is None:
        raise route.error(
            LLMRequestError,
            f"{route.profile.name} has no batches for this client: {', '.join(BATCHES)} have",
        )
    return found


# Submitting.


def batch_plans(client: ClientCore, requests: Any, model: Any) -> dict[str, CallPlan]:
    """Return the plan of each request of a batch by its id.

    Raises:
        LLMRequestError: an argument is wrong, or the provider has no batches; the message has the
            index of a request that is wrong.
        LLMAuthenticationError: there is no key.
        TypeError: there is no such option.
    """
    batch_format(side_route(client, model))
    if client._routing is not None and client._routing.budgets:
        raise LLMRequestError("budgets do not cover batches: use a client without budgets")
    if not isinstance(requests, list | tuple) or not requests:
        raise invalid("requests", "must be a list of at least one request", requests)
    found: dict[str, CallPlan] = {}
    for index, request in enumerate(requests):
        where = f"requests[{index}]"
        if not isinstance(request, Mapping) or "messages" not in request:
            raise invalid(where, 'must be {"messages": …} with further arguments', request)
        arguments = dict(request)
        id_ = arguments.pop("id", f"request-{index}")
        if not isinstance(id_, str) or not _REQUEST_ID.fullmatch(id_):
            raise invalid(f"{where}.id", "must be 1 to 64 letters, digits, _ and -", id_)
        if id_ in found:
            raise LLMRequestError(f"{where}.id must be unique, got {id_!r} again")
        try:
            found[id_] = _plan(client, arguments, client._model_or_default(model))
        except LLMRequestError as error:
            error.args = (f"{where}: {error}",)
            raise
    return found


def _plan(client: ClientCore, given: dict[str, Any], model: str) -> CallPlan:
    messages = given.pop("messages")
    usual = {key: given.pop(key, default) for key, default in _DEFAULTS.items()}
    if given.get("resume") or take_own_options(given) != NO_OPTIONS:
        raise LLMRequestError(
            "fallbacks, tags, budget_key, on_break, reask and resume are for single calls"
        )
    return client._plan(check_call(messages, model, **usual, **given), model)


def first_plan(requests: Mapping[str, CallPlan]) -> SidePlan:
    """Return the first request of a submit: the upload of the input file, or the batch itself."""
    route = next(iter(requests.values())).route
    if not batch_format(route).has_input_file:
        return _create_plan(route, requests, "")
    bodies, single = _bodies(requests)
    content = input_file(bodies, endpoint_of(single))
    return form_plan(route, "batch", ("batch.jsonl", "application/jsonl", content))


def submit_flow(attempts: Attempts[SidePlan], requests: Mapping[str, CallPlan]) -> Flow[str]:
    """Submit a batch, and return the provider's id of it.

    Raises:
        LLMError: it was not created, or it is not known whether it was.
    """
    if batch_format(attempts.plan.route).has_input_file:
        file = yield from call_flow(attempts, read_id)
        attempts.continue_with(_create_plan(attempts.plan.route, requests, file))
    found = yield from call_flow(attempts, _read_created)
    return found.id


def _create_plan(route: ModelRoute, requests: Mapping[str, CallPlan], file: str) -> SidePlan:
    bodies, single = _bodies(requests)
    url, body = batch_format(route).create(route.base, single, bodies, file)
    return SidePlan(route, url, encode_body(body, route.model))


def _bodies(requests: Mapping[str, CallPlan]) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the bodies of requests by their ids, and the URL of a single request."""
    url = next(iter(requests.values())).url.partition("?")[0]
    return {id_: plan.body for id_, plan in requests.items()}, url


def _read_created(
    plan: SidePlan, result: Reply | TransportFailure | None, seconds: float
) -> FoundBatch | FailedAttempt:
    outcome = read_batch(plan, result, seconds)
    if not isinstance(outcome, FailedAttempt) or outcome.unsent:
        return outcome
    error = outcome.error
    status = error.status or 0
    if status in _NOT_CREATED:
        return outcome
    if not 300 <= status < 500 or status == 408:
        error.args = (f"{error}{_UNCERTAIN}",)
    return replace(outcome, retryable=False)


# Following a batch.


def read_batch(
    plan: SidePlan, result: Reply | TransportFailure | None, seconds: float
) -> FoundBatch | FailedAttempt:
    """Return the batch in a reply, or the failure; `seconds` was the timeout."""
    if isinstance(result, Reply) and result.head.status == 200:
        with suppress(Malformed):  # the error in an operation of Gemini is that of the batch
            value = mapping(parse_or_none(result.body))
            return batch_format(plan.route).read(plan.route.base, value)
    return _read_batch(plan, result, seconds)


@reply_reader
def _read_batch(plan: SidePlan, reply: JSONReply) -> FoundBatch:
    return batch_format(plan.route).read(plan.route.base, reply.value)


def poll_delays(batch: str, timeout: Any) -> Iterator[float]:
    """Return the seconds between two looks at a batch, from 5 to 60; after the time it raises.

    Raises:
        LLMRequestError: `timeout` is not a number of seconds.
        LLMTimeoutError: the time is over.
    """
    if not is_number(timeout) or not timeout > 0:
        raise invalid("timeout", "must be a number of seconds greater than 0", timeout)
    end = monotonic() + timeout

    def delays() -> Iterator[float]:
        for polls in count(1):
            if (left := end - monotonic()) <= 0:
                raise LLMTimeoutError(
                    f"batch {batch} has not ended within {timeout:g} s; it goes on: wait again"
                )
            yield min(_POLLING.delay(polls, random.random), left)

    return delays()


class BatchCore:
    """The requests to follow one batch, given its saved id, and its results.

    `route` returns the route of a model.

    Raises:
        LLMRequestError: the id is not that of a batch, or its provider has no batches.
    """

    def __init__(self, saved: Any, route: Callable[[str], ModelRoute]) -> None:
        self._model, _, id_ = saved.rpartition("#") if isinstance(saved, str) else ("", "", "")
        try:
            check_id(id_ if self._model else None)
        except Malformed:
            raise invalid("id", "must be the `id` of a batch, such as model#id", saved) from None
        self.id: str = saved
        self._route = route(self._model)
        self._format = batch_format(self._route)
        self._url = self._format.url(self._route.base, id_)

    def status_plan(self) -> SidePlan:
        """Return the request for the batch."""
        return SidePlan(self._route, self._url, method="GET")

    def cancel_plan(self) -> SidePlan:
        """Return the request that cancels the batch."""
        return SidePlan(self._route, self._url + self._format.cancel)

    def results(
        self, found: FoundBatch, response_format: Any
    ) -> tuple[ReadLine, Sequence[Any], list[SidePlan]]:
        """Return the function that reads a result, the results of the batch, and those in files.

        Raises:
            LLMRequestError: there are no results, or `response_format` is wrong.
        """
        asked = [{"role": "user", "content": "-"}]  # the questions are not known any more
        model = self._route.model
        call = check_call(asked, model, None, None, None, response_format=response_format)
        plan = CallPlan(call, self._route, self._model, batch_cost)
        self._check_ended(found, endpoint_of(plan.url.partition("?")[0]))
        read = partial(_read_result, plan, response_format)
        return read, found.inline, [SidePlan(self._route, url, method="GET") for url in found.files]

    def _check_ended(self, found: FoundBatch, endpoint: str) -> None:
        status = found.status
        problem = ""
        if status["state"] == "running":
            problem = "is still running: call wait() first"
        elif status["state"] == "failed" and not found.files and not found.inline:
            problem = f"has failed and has no results: {status.get('reason') or 'no reason given'}"
        elif found.endpoint not in ("", endpoint):
            wire = "responses" if found.endpoint.endswith("responses") else "chat"
            problem = f'was submitted with wire="{wire}": create the client with it'
        if problem:
            raise self._route.profile.rejected(f"batch {self.id} {problem}", self._model)


# Results.


def _read_result(plan: CallPlan, response_format: Any, line: Any) -> BatchResult:
    found = batch_format(plan.route).result(mapping(line))
    if found.unprocessed:
        return BatchResult(found.id, None, _unprocessed(plan.route, found.unprocessed))
    head = ResponseHead(found.status, Headers(found.headers.items()))
    outcome = read_reply(plan, Reply(head, encode(found.body)), 0.0, response_format)
    if isinstance(outcome, FailedAttempt):
        return BatchResult(found.id, None, outcome.error)
    return BatchResult(found.id, outcome, None)


def _unprocessed(route: ModelRoute, why: str) -> LLMError:
    kind = LLMTimeoutError if why == "expired" else LLMError
    problem = f"the request was {why} before {route.profile.name} processed it: submit it again"
    return route.error(kind, problem, code=why)


class ResultsMachine:
    """Reads one file of results; it keeps one line at a time."""

    def __init__(self, attempts: Attempts[SidePlan], read: ReadLine) -> None:
        self._attempts = attempts
        self._read = read
        self._delivered = self._line = 0
        self._lines = LineDecoder(MAX_ANSWER_BYTES)
        self.reading = True

    def next_step(self) -> Step | None:
        """Return the next step; None after the end of the file."""
        return self._attempts.next_step() if self.reading else None

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response has the file."""
        self._line, self._lines = 0, LineDecoder(MAX_ANSWER_BYTES)
        return head.status == 200

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Record an error response."""
        route = self._attempts.plan.route
        fault = route.adapter.fault(parse_or_none(body))
        self._attempts.record_failure(http_failure(route, head, fault, body))

    def receive(self, chunk: bytes) -> Iterator[BatchResult]:
        """Yield the results whose lines are complete now."""
        try:
            yield from self._results(self._lines.lines(chunk))
        except LineTooLong:
            raise self._malformed("a line of the results is too long", b"") from None

    def lost(self, failure: TransportFailure | None) -> Iterator[BatchResult]:
        """Yield the last result at the end of the file; a broken one is read again."""
        if failure is None:
            yield from self._results(self._lines.flush())
            self.reading = False
        else:
            route, seconds = self._attempts.plan.route, self._attempts.timeout
            failed = connection_failure(route, failure, seconds, partway=self._line > 0)
            self._attempts.record_failure(failed)

    def _results(self, lines: Iterable[bytes]) -> Iterator[BatchResult]:
        for line in lines:
            self._line += 1
            if self._line <= self._delivered:
                continue
            value = mapping(parse_or_none(line))
            if not value:
                raise self._malformed(f"line {self._line} of the results is not JSON", line)
            self._delivered = self._line
            self._attempts.restart_deadline(forget_failures=True)
            yield self._read(value)

    def _malformed(self, why: str, body: bytes) -> LLMError:
        head = ResponseHead(200, Headers())
        return malformed_failure(self._attempts.plan.route, head, why, body).error
