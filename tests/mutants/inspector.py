"""Mutants of the server behind `coreason inspect`: who may use it, what passes, A2A as packets."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/inspector"
_ACCESS = f"{_T}/test_access.py"
_PROXY = f"{_T}/test_cap_proxy.py"
_HEADERS = f"{_T}/test_cap_headers.py"
_PACKETS = f"{_T}/test_a2a_packets.py"
_A2A = f"{_T}/test_a2a_backend.py"


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/inspector/{file}", old, new, tests)


MUTANTS = (
    _mutant(
        "app.py",
        "the inspector answers other hosts and origins",
        "        if foreign is not None:\n",
        "        if False:\n",
        _ACCESS,
    ),
    _mutant(
        "app.py",
        "the configuration of the page needs no token",
        " and path != CONFIG_PATH)",
        ")",
        _ACCESS,
    ),
    _mutant(
        "app.py",
        "a request with any method may read files",
        '    if method not in ("GET", "HEAD"):\n        return False\n',
        "",
        _ACCESS,
    ),
    _mutant(
        "app.py",
        "the inspector does not ask for a token",
        "        elif refusal := self._access.refusal(scope):\n",
        "        elif refusal := None:\n",
        _PROXY,
    ),
    _mutant(
        "_cap_proxy.py",
        "all headers of the browser reach the agent",
        "for name, value in given if name.lower() in _REQUEST}",
        "for name, value in given}",
        _HEADERS,
    ),
    _mutant(
        "_cap_proxy.py",
        "the agent can set any header",
        "if name.lower() in _RESPONSE and value.isascii()",
        "if value.isascii()",
        _HEADERS,
    ),
    _mutant(
        "_cap_proxy.py",
        "a lost connection to the agent looks like an end",
        "            self._log_loss(failure)\n            raise\n        await send(",
        "            self._log_loss(failure)\n        await send(",
        _PROXY,
    ),
    _mutant(
        "_cap_proxy.py",
        "a connection that is lost before the response is a refusal",
        "                if failure.kind in _LOST:\n",
        "                if False:\n",
        _PROXY,
    ),
    _mutant(
        "_cap_proxy.py",
        "a browser that leaves keeps the connection to the agent",
        "            relay.cancel()\n            await asyncio.wait({relay})",
        "            await asyncio.wait({relay})",
        _PROXY,
    ),
    _mutant(
        "_cap_proxy.py",
        "the id of a stream may be any path",
        "stream_in_path(request.path_params['stream_id'])",
        "request.path_params['stream_id']",
        _PROXY,
    ),
    _mutant(
        "_cap_proxy.py",
        "an agent without an inbox is an unknown path",
        "self._request.url.endswith(_MESSAGES)",
        "False",
        _PROXY,
    ),
    _mutant(
        "_a2a_backend.py",
        "a message that the agent did not take is not reported",
        '            await stream.warn("message_not_taken", not_taken)',
        "            pass",
        _A2A,
    ),
    _mutant(
        "_a2a_packets.py",
        "a message to a running answer begins another task",
        "context_id=self._context_id, task_id=self._task_id)\n\n    def of",
        "context_id=self._context_id)\n\n    def of",
        _A2A,
    ),
    _mutant(
        "_a2a_packets.py",
        "the answer to a question repeats what was shown",
        "        self._shown: set[str] = set(self._before.shown)\n",
        "        self._shown: set[str] = set()\n",
        _PACKETS,
    ),
    _mutant(
        "_a2a_packets.py",
        "a failed task ends as if it were complete",
        "        if state in _FAILED:\n            code, default",
        "        if False:\n            code, default",
        _PACKETS,
    ),
    _mutant(
        "_a2a_packets.py",
        "a task that is over is continued",
        "        if self._task_id is None or not self._status.is_interrupted:\n",
        "        if self._task_id is None:\n",
        _PACKETS,
    ),
    _mutant(
        "_a2a_backend.py",
        "a cancelled stream leaves the task running",
        "            await self._cancel(packets.task_id)\n            raise\n",
        "            raise\n",
        _A2A,
    ),
    _mutant(
        "_a2a_backend.py",
        "a server that stops cancels the tasks",
        "        if task_id is None or self.stopping:\n",
        "        if task_id is None:\n",
        _A2A,
    ),
    _mutant(
        "_a2a_backend.py",
        "an error of the agent may contain its credential",
        "            message = self._redact(found.message)\n",
        "            message = found.message\n",
        _A2A,
    ),
)
