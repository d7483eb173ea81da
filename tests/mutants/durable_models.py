"""Mutants of models as durable agents, and of the spans and metrics of durable streams."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_CONTINUATION = "tests/llm/test_continuation.py"
_ANSWER = "tests/agents/test_answer.py"
_METRICS = "tests/server/durable/test_durable_metrics.py"
_SPANS = "tests/server/durable/test_durable_spans.py"

MUTANTS = (
    Mutant(
        "white space of the beginning is written twice",
        "coreason_client/llm/_continuation.py",
        "self._space = prefix[len(sent) :]",
        'self._space = ""',
        (_CONTINUATION, _ANSWER),
    ),
    Mutant(
        "the repeated beginning is written twice",
        "coreason_client/llm/_continuation.py",
        'self._repeated = sent if repeats else ""',
        'self._repeated = ""',
        (_CONTINUATION, _ANSWER),
    ),
    Mutant(
        "a field of a continuation is dropped if the provider rejects it",
        "coreason_client/llm/_plan.py",
        '"stream", *FIELDS})',
        '"stream"})',
        (_CONTINUATION,),
    ),
    Mutant(
        "an answer with reasoning is continued",
        "coreason_client/agents/_answer.py",
        "return bool(self.text.strip()) and not self.reasoned",
        "return bool(self.text.strip())",
        (_ANSWER,),
    ),
    Mutant(
        "a fallback that cannot continue is asked",
        "coreason_client/agents/_answer.py",
        "[name for name in fallbacks if self._accepts_prefix(name)]",
        "fallbacks",
        (_ANSWER,),
    ),
    Mutant(
        "the usage of an interrupted request is forgotten",
        "coreason_client/agents/_answer.py",
        '        response["usage"] = added(response["usage"], progress, self._price)\n',
        "",
        (_ANSWER,),
    ),
    Mutant(
        "a step that starts over is not compared",
        "coreason_client/server/durable/_replay.py",
        "                self.left += owned.used\n                owned.used = 0\n",
        "                pass\n",
        ("tests/server/durable/test_start_over.py",),
    ),
    Mutant(
        "what outlives its step may write",
        "coreason_client/server/engine/_step_context.py",
        "        step.ended = True\n",
        "",
        ("tests/server/durable/test_durable_cancel.py",),
    ),
    Mutant(
        "a restart counts as a start",
        "coreason_client/server/engine/_producers.py",
        "self.metrics.continued() if restarted else self.metrics.started(accepted_at)",
        "self.metrics.started(accepted_at)",
        (_METRICS,),
    ),
    Mutant(
        "a stream that was cancelled without a process is not counted",
        "coreason_client/server/engine/_takeover.py",
        "            self._metrics.cancelled_orphan()\n",
        "            pass\n",
        ("tests/server/durable/test_durable_cancel.py",),
    ),
    Mutant(
        "the span of a run is not stored",
        "coreason_client/server/engine/_durable_writer.py",
        "            self.add_note(Traced(span))\n",
        "            pass\n",
        (_SPANS,),
    ),
    Mutant(
        "a restart is a child of what runs here",
        "coreason_client/server/observe/_spans.py",
        "self._stored_parent(headers) if restarted else self._parent(headers)",
        "self._parent(headers)",
        (_SPANS,),
    ),
    Mutant(
        "a hand-over is a failure",
        "coreason_client/server/observe/_spans.py",
        '"abandoned", HANDED_OVER})',
        '"abandoned"})',
        (_SPANS,),
    ),
    Mutant(
        "other white space than that of the beginning is removed",
        "coreason_client/llm",
        '                self._space = ""\n',
        "                self._space = self._space[1:]\n",
        ("tests/llm/test_continuation.py",),
    ),
)
