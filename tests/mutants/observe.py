"""Mutants of the telemetry and the hooks of the AI client."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_OBSERVE = "coreason_client/llm/observe"
_TESTS = "tests/llm/observe"

MUTANTS = (
    Mutant(
        "messages are recorded without a request",
        f"{_OBSERVE}/telemetry.py",
        "record_content: bool = False",
        "record_content: bool = True",
        (f"{_TESTS}/test_call_telemetry.py",),
    ),
    Mutant(
        "the trace is sent to every provider",
        f"{_OBSERVE}/_spans.py",
        "if not self._options.send_trace_headers:",
        "if self._options.send_trace_headers:",
        (f"{_TESTS}/test_call_telemetry.py",),
    ),
    Mutant(
        "a stream that was closed early is a failure",
        f"{_OBSERVE}/_spans.py",
        'if isinstance(error, Exception):\n        return "error"',
        'if isinstance(error, BaseException):\n        return "error"',
        (f"{_TESTS}/test_call_telemetry.py",),
    ),
    Mutant(
        "estimated tokens are reported as counted",
        f"{_OBSERVE}/_spans.py",
        'if usage is not None and not usage.get("estimated"):',
        "if usage is not None:",
        (f"{_TESTS}/test_call_telemetry.py",),
    ),
    Mutant(
        "a hook sees the key in the headers",
        f"{_OBSERVE}/_observer.py",
        "_MASK if _is_secret(name, value) else redact(value, known)",
        "value",
        (f"{_TESTS}/test_hooks.py",),
    ),
    Mutant(
        "a hook sees a key that the provider repeats",
        f"{_OBSERVE}/_observer.py",
        'return redact(text, secrets).encode("utf-8", "surrogateescape")',
        'return text.encode("utf-8", "surrogateescape")',
        (f"{_TESTS}/test_hooks.py",),
    ),
    Mutant(
        "a key is part of the id of a response",
        f"{_OBSERVE}/_attributes.py",
        "return route.redact(value)[:_MAX_TEXT]",
        "return value[:_MAX_TEXT]",
        (f"{_TESTS}/test_call_telemetry.py",),
    ),
    Mutant(
        "a request of a call with several is not reported",
        f"{_OBSERVE}/_observer.py",
        "self._end_attempt(None)  # of the request before, if the call has several",
        "pass",
        (f"{_TESTS}/test_other_operations.py",),
    ),
    Mutant(
        "a failed attempt that is continued is reported as a success",
        "coreason_client/llm/_attempts.py",
        "        self.observer.attempt_failed(failure.error, continued=True)\n",
        "",
        (f"{_TESTS}/test_resumed_telemetry.py",),
    ),
)
