"""Log lines as text and as JSON: whatever is logged, a line comes out."""

import json
import logging
import sys
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli._logs import JsonFormatter, TextFormatter
from coreason_client.cli.output import LogHandler


def record(message: object = "hello %s", *arguments: object, **extra: object) -> Any:
    made = logging.LogRecord("a.b", logging.INFO, "f.py", 1, message, arguments, None)
    made.__dict__.update(extra)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert line.isascii()
    assert line.isprintable()  # no line end and nothing that controls a terminal
    found: dict[str, Any] = json.loads(line, parse_constant=lambda name: pytest.fail(name))
    return found


def test_the_fields_of_a_line() -> None:
    made = record("hello %s", "you", event="greeted", seconds=0.5, who=None, ids=[1, "2"])
    found = as_json(made)
    time = found.pop("time")
    assert datetime.fromisoformat(time).timestamp() == pytest.approx(made.created, abs=0.001)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert found == {
        "level": "INFO",
        "logger": "a.b",
        "message": "hello you",
        "event": "greeted",
        "seconds": 0.5,
        "who": None,
        "ids": [1, "2"],
    }


def test_an_exception_is_a_field() -> None:
    made = record("it broke")
    try:
        raise ValueError("no\nway")
    except ValueError:
        made.exc_info = sys.exc_info()
    found = as_json(made)
    assert found["message"] == "it broke"
    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("ValueError: no\nway")


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_odd_values_break_nothing() -> None:
    circle: list[Any] = []
    circle.append(circle)
    values = {
        "nan": float("nan"),
        "inf": float("-inf"),
        "odd": Odd(),
        "circle": circle,
        "half": "\ud800",
        "keys": {1: 2, (3,): Odd()},
        "bytes": b"\xff",
        "set": {1},
        "level": "not this one",
    }
    found = as_json(record("%d of %s", "three", **values))
    assert found["message"] == "%d of %s"
    assert (found["nan"], found["inf"], found["odd"]) == ("nan", "-inf", "<Odd>")
    assert found["keys"] == {"1": 2, "(3,)": "<Odd>"}
    assert (found["set"], found["half"], found["level"]) == ([1], "\ud800", "INFO")
    assert as_json(record(Odd()))["message"] == "<Odd>"


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


NAMES = ("first", "second", "stream_id")


@given(st.text(), st.dictionaries(st.sampled_from(NAMES), ANYTHING))
def test_anything_can_be_logged(message: str, extra: dict[str, Any]) -> None:
    found = as_json(record("%s", message, **extra))
    assert found["message"] == message
    assert set(extra) <= set(found)


def test_the_access_log_has_fields() -> None:
    made = record('%s - "%s %s HTTP/%s" %d', "1.2.3.4:5", "GET", "/health", "1.1", 200)
    made.name = "uvicorn.access"
    found = as_json(made)
    assert found["message"] == '1.2.3.4:5 - "GET /health HTTP/1.1" 200'
    assert (found["client"], found["path"], found["status"]) == ("1.2.3.4:5", "/health", 200)


def test_text_has_a_date_and_no_control_characters() -> None:
    handler = LogHandler()
    handler.setFormatter(TextFormatter())
    line = handler.format(record("a\x1b[31mb"))
    time, rest = line.split(" ", 1)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert rest == "INFO a.b: ab"
