"""A small model of a client: the rules for the order of events, and the messages they make."""

import json
from copy import deepcopy
from typing import Any, Final

__all__ = ["ENDS", "Model", "events_of", "frames_of"]

ENDS: Final = ("RUN_FINISHED", "RUN_ERROR")
_PAIRS: Final = {
    "TEXT_MESSAGE": "messageId",
    "REASONING_MESSAGE": "messageId",
    "REASONING": "messageId",
    "TOOL_CALL": "toolCallId",
}
_CONTENT: Final = ("_CONTENT", "_ARGS")


def frames_of(written: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a body with their ids; everything in it is an event or a comment."""
    assert b"\r" not in written
    assert not written or written.endswith(b"\n\n")
    frames = []
    for frame in written.decode().split("\n\n")[:-1]:
        if not frame.startswith(":"):
            name, data = frame.split("\n")
            assert name.startswith("id: ")
            assert data.startswith("data: ")
            frames.append((name[4:], json.loads(data[6:])))
    return frames


def events_of(written: bytes) -> list[dict[str, Any]]:
    return [event for _, event in frames_of(written)]


class Model:
    """A client with the messages of its user; `add` checks the order of events.

    Unlike the real one it takes thoughts back too: a reader who joins never had them.
    """

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = deepcopy(messages)
        self.custom: list[tuple[str, Any]] = []
        self.last: dict[str, Any] | None = None
        self.texts: dict[str, int] = {}
        """The number of pieces of each message."""
        self._open: set[tuple[str, str]] = set()

    def add_all(self, events: list[dict[str, Any]]) -> "Model":
        for event in events:
            self.add(event)
        return self

    def add(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        assert (self.last is None) == (kind == "RUN_STARTED"), "the run begins once, first"
        assert self.last is None or self.last["type"] not in ENDS, "nothing follows the end"
        self.last = event
        self._check_order(kind, event)
        if kind == "RUN_FINISHED":
            assert not self._open
        elif kind == "CUSTOM":
            self.custom.append((event["name"], event["value"]))
        elif kind == "MESSAGES_SNAPSHOT":
            self._replace(event["messages"])
        else:
            self._apply(kind, event)

    def _check_order(self, kind: str, event: dict[str, Any]) -> None:
        for prefix, name in _PAIRS.items():
            rest = kind.removeprefix(prefix)
            key = (prefix, event.get(name, ""))
            if rest == "_START":
                assert key not in self._open
                self._open.add(key)
            elif rest == "_END":
                self._open.remove(key)
            elif rest in _CONTENT:
                assert key in self._open
                assert event["delta"], "clients before 1.0 refuse an empty piece"

    def _replace(self, messages: list[dict[str, Any]]) -> None:
        new = {message["id"]: message for message in deepcopy(messages)}
        assert len(new) == len(messages)
        kept = [message["id"] for message in self.messages if message["id"] in new]
        self.messages = [new[name] for name in [*kept, *(one for one in new if one not in kept)]]

    def _message(self, name: str) -> dict[str, Any] | None:
        return next((one for one in self.messages if one["id"] == name), None)

    def _calls(self, call_id: str) -> list[tuple[int, dict[str, Any]]]:
        return [
            (index, call)
            for index, message in enumerate(self.messages)
            for call in message.get("toolCalls", ())
            if call["id"] == call_id
        ]

    def _apply(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                if self._message(event["messageId"]) is None:
                    message = {"id": event["messageId"], "role": event["role"], "content": ""}
                    self.messages.append(message)
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                found = self._message(event["messageId"])
                assert found is not None, "the content would be lost"
                found["content"] += event["delta"]
            case "TOOL_CALL_START":
                assert not self._calls(event["toolCallId"]), "arguments would be appended"
                self._start_call(event)
            case "TOOL_CALL_ARGS":
                [(_, call)] = self._calls(event["toolCallId"])
                call["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                self._add_result(event)

    def _start_call(self, event: dict[str, Any]) -> None:
        owner = self._message(event["parentMessageId"])
        if owner is None:
            owner = {"id": event["parentMessageId"], "role": "assistant"}
            self.messages.append(owner)
        assert owner["role"] == "assistant"
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": event["toolCallId"], "type": "function", "function": function}
        owner.setdefault("toolCalls", []).append(call)

    def _add_result(self, event: dict[str, Any]) -> None:
        assert self._message(event["messageId"]) is None
        [(index, _)] = self._calls(event["toolCallId"])
        index += 1
        while index < len(self.messages) and self.messages[index]["role"] == "tool":
            index += 1
        members = ("toolCallId", "role", "content", "metadata")
        message = {name: event[name] for name in members if name in event}
        self.messages.insert(index, {"id": event["messageId"], **message})
