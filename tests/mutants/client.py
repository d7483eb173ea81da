"""Mutants of the definitions and of the clients."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_WIRE_CASES = "tests/cap/test_wire_cases.py"
_RESUBSCRIBE = "tests/a2a/test_resubscribe.py"
_TWINS = "tests/test_public_names.py::test_twins_have_the_same_methods_and_parameters"

MUTANTS = (
    Mutant(
        "a moment without a zone is in the zone of the machine",
        "coreason_manifest/definitions/_base.py",
        "return value.replace(tzinfo=UTC)",
        "return value.astimezone(UTC)",
        ("tests/definitions/test_base.py",),
    ),
    Mutant(
        "a later server delay hides a longer one",
        "coreason_client/_connections.py",
        "max(filter(None, (asked, self._retry_seconds)), default=None)",
        "asked or self._retry_seconds",
        (_WIRE_CASES,),
    ),
    Mutant(
        "redirects are counted over all attempts",
        "coreason_client/_connections.py",
        "        self.attempts += 1\n        self._redirects = Redirects()\n",
        "        self.attempts += 1\n",
        (_WIRE_CASES,),
    ),
    Mutant(
        "a stream that is finished can be settled again",
        "coreason_client/_connections.py",
        "        if self.state is not State.FINISHED:\n            self.state = State.IDLE\n",
        "        self.state = State.IDLE\n",
        ("tests/test_connections.py",),
    ),
    Mutant(
        "the field retry ends with its connection",
        "coreason_client/_connections.py",
        "        self._redirects = Redirects()\n        self._save_retry()\n",
        "        self._redirects = Redirects()\n",
        ("tests/test_connections.py",),
    ),
    Mutant(
        "restored retries start the delays anew",
        "coreason_client/_retry_budget.py",
        "        self._first_loss: float | None = None\n        self.failures = 0\n",
        "        self._first_loss: float | None = None\n        self._delays = 0\n"
        "        self.failures = 0\n",
        ("tests/test_retry_budget.py",),
    ),
    Mutant(
        "a redirect without a location is followed",
        "coreason_client/_http/_redirect.py",
        'return head.status in self._statuses and "location" in head.headers',
        "return head.status in self._statuses",
        ("tests/http/test_redirect.py",),
    ),
    Mutant(
        "a connect timeout is a request that was sent",
        "coreason_client/_http/_types.py",
        "frozenset({FailureKind.CONNECT, FailureKind.CONNECT_TIMEOUT})",
        "frozenset({FailureKind.CONNECT})",
        ("tests/a2a/test_errors.py",),
    ),
    Mutant(
        "a gap in another stream counts as retried",
        "coreason_client/cap/_numbering.py",
        "return self._retried_gap == (self.stream, self.seq)",
        "return self._retried_gap is not None and self._retried_gap[1] == self.seq",
        ("tests/cap/test_numbering.py",),
    ),
    Mutant(
        "a busy server is never asked to subscribe again",
        "coreason_client/a2a/_stream_operation.py",
        "return status not in _BUSY or self._rejections > 1",
        "return True",
        ("tests/a2a/test_stream_operation.py",),
    ),
    Mutant(
        "the async client retries once more",
        "coreason_client/cap/aclient.py",
        "max_retries: int = DEFAULT_MAX_RETRIES,",
        "max_retries: int = 4,",
        (_TWINS,),
    ),
    Mutant(
        "the async connect names its argument otherwise",
        "coreason_client/a2a/aclient.py",
        "async def connect(cls, base_url: str,",
        "async def connect(cls, url: str,",
        (_TWINS,),
    ),
    Mutant(
        "a page that names itself as the next one is fetched for ever",
        "coreason_client/a2a/_client_flows.py",
        "self.done = not next_token or next_token == self.token",
        "self.done = not next_token",
        ("tests/a2a/test_client_flows.py",),
    ),
    Mutant(
        "a task whose stream ended early is not polled",
        "coreason_client/a2a/_client_flows.py",
        "        if has_stopped(task):\n            return task\n",
        "        if task is not None:\n            return task\n",
        ("tests/a2a/test_client_flows.py",),
    ),
    Mutant(
        "an event that says final is not the end",
        "coreason_client/a2a/_assemble.py",
        "self.ended = self.final or self.status.is_terminal or _needs_input(self.status)",
        "self.ended = self.status.is_terminal or _needs_input(self.status)",
        (_RESUBSCRIBE,),
    ),
    Mutant(
        "interfaces that were skipped stay skipped after a loss",
        "coreason_client/a2a/_resubscribe.py",
        "        self._skipped = 0\n        asked = connections",
        "        asked = connections",
        (_RESUBSCRIBE,),
    ),
    Mutant(
        "a connection that repeats what is known restores the retries",
        "coreason_client/a2a/_resubscribe.py",
        "        elif operation.fetches:\n            budget.restore_retries()",
        "        else:\n            budget.restore_retries()",
        (_RESUBSCRIBE,),
    ),
    Mutant(
        "the cursor is sent although the connection with it brought nothing new",
        "coreason_client/a2a/_resubscribe.py",
        '        elif self._record.only_repeated:\n            operation.last_event_id = b""\n',
        "",
        (_RESUBSCRIBE,),
    ),
    Mutant(
        "a status of which only the time is new is progress",
        "coreason_client/a2a/_assemble.py",
        "return any(event is not self._restated for event in new_events)",
        "return bool(new_events)",
        (_RESUBSCRIBE,),
    ),
    Mutant(
        "a connection that ends at once uses no retry",
        "coreason_client/a2a/_connection_record.py",
        "_STABLE_SECONDS = 5.0",
        "_STABLE_SECONDS = 0.0",
        ("tests/a2a/test_connection_record.py",),
    ),
    Mutant(
        "numbers are used before they are proved",
        "coreason_client/a2a/_generations.py",
        "        self._used = self.proved\n",
        "        self._used = not self._ignored\n",
        ("tests/a2a/test_generations.py",),
    ),
    Mutant(
        "the first number of all is trusted at the cursor",
        "coreason_client/a2a/_generations.py",
        "None if self._position == self._first else self._position",
        "self._position",
        ("tests/a2a/test_generations.py",),
    ),
    Mutant(
        "an event after a missing one is delivered",
        "coreason_client/a2a/_generations.py",
        "                raise Gap\n            return True",
        "                return False\n            return True",
        ("tests/a2a/test_generations.py",),
    ),
    Mutant(
        "a newer task leaves a longer artifact as it was",
        "coreason_client/a2a/_artifacts.py",
        "if match.contradicts or (whole and not match.caught_up):",
        "if match.contradicts:",
        ("tests/a2a/test_artifacts.py",),
    ),
    Mutant(
        "a drain over gRPC is an answer of the agent",
        "coreason_client/a2a/_grpc/_exchange.py",
        "return _failure(status, () if is_answer else _INTERRUPTIONS)",
        "return _failure(status, () if status.details else _INTERRUPTIONS)",
        ("tests/a2a/grpc/test_grpc_exchange.py",),
    ),
    Mutant(
        "the metadata of an artifact is replaced",
        "coreason_client/a2a/_partial.py",
        "metadata = {**(known.metadata or {}), **artifact.metadata}",
        "metadata = artifact.metadata",
        (_RESUBSCRIBE,),
    ),
    Mutant(
        "a fallback is tried after the deadline",
        "coreason_client/llm/_attempts.py",
        "if self.seconds_left() > 0:\n            if self.gate is not None:",
        "if True:\n            if self.gate is not None:",
        ("tests/llm/test_attempts.py::test_no_fallback_is_tried_after_the_deadline",),
    ),
    Mutant(
        "usage that comes with a piece of text is dropped",
        "coreason_client/llm/providers/openai.py",
        ' and not chunk.get("usage"):',
        ":",
        ("tests/llm/providers/test_openai.py",),
    ),
)
