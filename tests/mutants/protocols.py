"""Mutants of the small modules of the clients: bindings, progress, server-sent events, HTTP."""

from .mutant import Mutant

__all__ = ["MUTANTS"]


def _a2a(topic: str, name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "coreason_client/a2a", old, new, (f"tests/a2a/test_{topic}.py",))


def _cap(topic: str, name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "coreason_client/cap", old, new, (f"tests/cap/test_{topic}.py",))


def _sse(topic: str, name: str, old: str, new: str) -> Mutant:
    return Mutant(name, "coreason_client/sse", old, new, (f"tests/sse/test_{topic}.py",))


MUTANTS = (
    _a2a(
        "auth_redaction",
        "only the secrets of the last request are redacted",
        "self._sent.update(self._credentials.values, header_secrets(request.headers))",
        "self._sent = {*self._credentials.values, *header_secrets(request.headers)}",
    ),
    _a2a(
        "auth_redaction",
        "the secrets of another origin are taken for ours",
        "if not request.without_client_defaults:",
        "if True:",
    ),
    _a2a(
        "auth_redaction",
        "a credential that was not sent is not redacted",
        "(*self._credentials.values, *self._sent)",
        "self._sent",
    ),
    _a2a(
        "hooks",
        "a stream that is closed early has an error",
        "        except GeneratorExit:\n            raise  # the stream was closed early\n",
        "",
    ),
    _a2a(
        "hooks",
        "a call is prepared before its hook has run",
        "        if self.on_request is not None:\n            self.on_request(call)\n"
        "        prepare(call)\n",
        "        prepare(call)\n        if self.on_request is not None:\n"
        "            self.on_request(call)\n",
    ),
    _a2a(
        "hooks",
        "the exception of on_response replaces that of the call",
        '            logger.exception("on_response failed for %s", call.operation)',
        "            raise",
    ),
    _a2a(
        "jsonrpc",
        "true is the id 1",
        "return number == self._number and type(number) is int",
        "return number == self._number",
    ),
    _a2a(
        "jsonrpc",
        "an error for another request is raised",
        "if not matches and not (number is None and error is not None):",
        "if not matches and error is None:",
    ),
    _a2a(
        "jsonrpc",
        "an event with an error and a result is an event",
        ' and envelope.get("error") is None:',
        ":",
    ),
    _a2a(
        "partial",
        "a part that is more than text becomes a string",
        "if part.text is not None and part.model_fields_set == _TEXT_ONLY else part",
        "if part.text is not None else part",
    ),
    _a2a(
        "partial",
        "a part that differs is taken for the one that was delivered",
        "self.contradicts = self._delivered[self._index] != part",
        "self.contradicts = False",
    ),
    _a2a(
        "partial",
        "an empty name replaces a name",
        "if (value := getattr(artifact, name)) and value != getattr(known, name)",
        "if (value := getattr(artifact, name)) != getattr(known, name)",
    ),
    _a2a(
        "polling",
        "a card that says nothing about streaming denies it",
        "card.capabilities.streaming is not False",
        "card.capabilities.streaming is True",
    ),
    _a2a(
        "polling",
        "returnImmediately replaces the choice of the caller",
        '{"returnImmediately": True, **(params.get("configuration") or {})}',
        '{**(params.get("configuration") or {}), "returnImmediately": True}',
    ),
    _a2a(
        "polling",
        "the delays between polls do not grow",
        "        polled += 1\n        yield backoff.delay(polled, random.random)",
        "        yield backoff.delay(1, random.random)",
    ),
    _a2a(
        "progress",
        "a stream without a machine has one connection too many",
        "return 0 if self._machine is None else self._machine.reconnects",
        "return 1 if self._machine is None else self._machine.reconnects",
    ),
    _a2a(
        "progress",
        "the artifacts that are complete cannot be seen",
        "frozenset(self._assembly.complete_artifacts)",
        "frozenset()",
    ),
    _a2a(
        "rest",
        "a slash in an id is a part of the path",
        'quote(str(rest.pop(name[1], "")), safe="")',
        'quote(str(rest.pop(name[1], "")))',
    ),
    _a2a(
        "rest",
        "GET is tried although the task is gone",
        "if not rejected or isinstance(error, A2AJSONRPCError) or",
        "if not rejected or",
    ),
    _a2a(
        "rest",
        "an empty list is an error",
        'if kind in ("tasks", "pushes"):',
        'if kind in ("tasks",):',
    ),
    _a2a(
        "silence",
        "silence that lasts exactly as long as the limit is short",
        "now - self._since < self._limit",
        "now - self._since <= self._limit",
    ),
    _a2a(
        "silence",
        "part of an event counts as silence",
        "if not keep_alives and not _is_comment(chunk):",
        "if not keep_alives and not chunk:",
    ),
    _a2a(
        "silence",
        "after the limit every keep-alive is too late",
        "        self._since = now\n        return True",
        "        return True",
    ),
    _a2a(
        "unary",
        "the length of encoded bytes is that of the body",
        'plain = "content-encoding" not in head.headers and size.isascii()',
        "plain = size.isascii()",
    ),
    _a2a(
        "unary",
        "another task is taken for the one that was fetched",
        "return task if task.id == task_id else None",
        "return task",
    ),
    _a2a(
        "unary",
        "a task is fetched with the timeouts of a unary call",
        "replace(call.request, timeouts=route.settings.stream)",
        "call.request",
    ),
    _cap(
        "chat_record",
        "the events of a chat are lost",
        "            self._events.append((packet.seq, packet.p))\n",
        "            pass\n",
    ),
    _cap(
        "chat_record",
        "an empty piece of text is no text",
        "return packet.p\n        if isinstance(packet, EventPacket)",
        "return packet.p or None\n        if isinstance(packet, EventPacket)",
    ),
    _cap(
        "progress",
        "a stream that was closed looks like a whole one",
        "if not self._machine.complete:",
        "if not self._machine.complete and not self._closed:",
    ),
    _cap(
        "progress",
        "a bookmark of a whole answer is not complete",
        "complete=machine.complete,",
        "complete=False,",
    ),
    _cap(
        "progress",
        "the answer has no events",
        "events=self.events)",
        "events=[])",
    ),
    _cap(
        "retry_defaults",
        "a 3 that the caller passes is the default",
        "isinstance(max_retries, _Default)",
        "max_retries == DEFAULT_MAX_RETRIES",
    ),
    _cap(
        "retry_defaults",
        "a time of 0 is the default time",
        "if reconnect_for is not None:",
        "if reconnect_for:",
    ),
    _cap(
        "sequence",
        "the last skipped number has arrived",
        "self._gap_ends.append(following - 1)",
        "self._gap_ends.append(following - 2)",
    ),
    _cap(
        "sequence",
        "the first skipped number has arrived",
        "bisect_right(self._gap_starts, seq) - 1",
        "bisect_right(self._gap_starts, seq - 1) - 1",
    ),
    _cap(
        "sequence",
        "numbers before the first have arrived",
        "if seq < self._first:",
        "if seq < 0:",
    ),
    _cap(
        "bookmark",
        "a bookmark is complete unless it says otherwise",
        "complete: bool = False\n    error",
        "complete: bool = True\n    error",
    ),
    _cap(
        "position",
        "a position does not tell its stream",
        'f"seq {self.seq} of stream {self.stream_id}"',
        'f"seq {self.seq}"',
    ),
    _sse(
        "block",
        "the line end between two lines of data does not count",
        "self._check(len(self.data) - 1, len(line))",
        'self._check(len(self.data) - self.data.count(b"\\n"), len(line))',
    ),
    _sse(
        "block",
        "an unfinished line does not count",
        "            size += len(line) - (5 if",
        "            size += 0 * len(line) - (0 if",
    ),
    _sse(
        "block",
        "a reconnection time may have 19 digits",
        "len(value) <= _MAX_RETRY_DIGITS",
        "len(value) <= _MAX_RETRY_DIGITS + 1",
    ),
    _sse(
        "event",
        "two ids make no difference between events",
        "(self.event, self.data_bytes, self.id) == (other.event, other.data_bytes, other.id)",
        "(self.event, self.data_bytes) == (other.event, other.data_bytes)",
    ),
    _sse(
        "event",
        "a copied error has lost its events",
        "return type(self), (self.limit,), self.__dict__",
        "return type(self), (self.limit,)",
    ),
    _sse(
        "template",
        "an id with a NUL counts if a block has the shape of an earlier one",
        "                    if _NUL in other:\n                        return None\n",
        "",
    ),
    _sse(
        "template",
        "a space after the colon is data",
        "lowest = lowest if has_space else _ABOVE_SPACE",
        'lowest = b""',
    ),
    _sse(
        "template",
        "the reconnection time of a block before the last wins",
        "return last_event_id, retry_ms if self.retry_ms is None else self.retry_ms",
        "return last_event_id, self.retry_ms if retry_ms is None else retry_ms",
    ),
    Mutant(
        "a name that is loaded late is looked up each time",
        "coreason_client/_lazy.py",
        "        setattr(sys.modules[package], name, value)  # `get` is not called for it again\n",
        "",
        ("tests/test_lazy.py",),
    ),
    Mutant(
        "an unknown name of a package is a KeyError",
        "coreason_client/_lazy.py",
        "module = modules.get(name)",
        "module = modules[name]",
        ("tests/test_lazy.py",),
    ),
    Mutant(
        "a request to another origin keeps the cookies of the client",
        "coreason_client/_http/_build.py",
        "    if not request.without_client_defaults:\n        return built\n",
        "    if request.url:\n        return built\n",
        ("tests/http/test_build.py",),
    ),
    Mutant(
        "an authorization with a name in lower case is sent twice",
        "coreason_client/_http/_build.py",
        'any(name.lower() == "authorization" for name in request.headers)',
        '"Authorization" in request.headers',
        ("tests/http/test_build.py",),
    ),
    Mutant(
        "a read after the deadline does not wait at all",
        "coreason_client/_http/_types.py",
        "return shorter(own, max(end - time.monotonic(), SHORTEST_SECONDS))",
        "return shorter(own, max(end - time.monotonic(), 0))",
        ("tests/http/test_types.py",),
    ),
    Mutant(
        "a value out of range is not an error of the parameters",
        "coreason_client/a2a",
        '    "OUT_OF_RANGE": errors.InvalidParamsError,\n',
        "",
        ("tests/a2a/grpc/test_grpc_status.py",),
    ),
    Mutant(
        "lost data is not an internal error",
        "coreason_client/a2a",
        '    "DATA_LOSS": errors.InternalError,\n',
        "",
        ("tests/a2a/grpc/test_grpc_status.py",),
    ),
)
