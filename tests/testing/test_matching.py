import json
from typing import Any

from coreason_client.testing._recording._file import RecordedExchange
from coreason_client.testing._replay import RecordedMatch, differences, find, same_id
from tests.each import each

ID = "3f9fd00b-31f9-471f-8ec8-89868f0327a9"
OTHER_ID = "bf59daff-061c-4428-b831-38b134a6df31"


def asked(
    body: Any = None, target: str = "/", method: str = "POST", **headers: str
) -> RecordedExchange:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return RecordedExchange(method, target, named, json.dumps(body).encode() if body else b"")


SAME: list[tuple[RecordedExchange, RecordedExchange]] = [
    (asked({"a": [1, {"b": "c"}]}), asked({"a": [1, {"b": "c"}]})),
    (asked({"request_id": "1", "a": 1}), asked({"request_id": "2", "a": 1})),
    (asked({"m": {"messageId": "1"}}), asked({"m": {"messageId": "2"}})),
    (asked({"jsonrpc": "2.0", "id": 1}), asked({"jsonrpc": "2.0", "id": 7})),
    (asked({"session": ID}), asked({"session": OTHER_ID})),
    (asked({"at": "2026-11-16T17:17:18.871Z"}), asked({"at": "2027-01-01T00:00:00Z"})),
    (asked({"t": "my *** here"}), asked({"t": "my other key here"})),
    (asked({"t": "***, ***, b***"}), asked({"t": "a, b, c, bb"})),
    (asked({"t": "***"}), asked({"t": ""})),
    (asked(None, "/x?a=1&b=2"), asked(None, "/x?b=2&a=1")),
    (asked(None, "/x?key=***"), asked(None, "/x?key=abc")),
    (asked(None, "/m%3A1"), asked(None, "/m:1")),
    (asked({"a": 1}, user_agent="x"), asked({"a": 1}, user_agent="y")),
]
DIFFERENT: list[tuple[RecordedExchange, RecordedExchange, str]] = [
    (asked(), asked(method="GET"), 'method is "POST" in the recording, got "GET"'),
    (asked(), asked(target="/x"), 'path is "/" in the recording, got "/x"'),
    (asked(target="/?a=1"), asked(), 'query.a is "1" in the recording, got missing'),
    (
        asked(last_event_id="x:1"),
        asked(last_event_id="x:2"),
        'header last-event-id is "x:1" in the recording, got "x:2"',
    ),
    (
        asked({"a": [1, {"b": "c"}]}),
        asked({"a": [1, {"b": "d"}]}),
        'body.a[1].b is "c" in the recording, got "d"',
    ),
    (asked({"a": [1]}), asked({"a": [1, 2]}), "body.a has 1 items in the recording, got 2"),
    (asked({"a": 1}), asked({"a": 1, "b": None}), "body.b is missing in the recording, got null"),
    (asked({"id": 1}), asked({"id": 2}), "body.id is 1 in the recording, got 2"),
    (asked({"t": "my *** here"}), asked({"t": "his key here"}), "body.t is"),
    (asked({"t": "ab***ba"}), asked({"t": "aba"}), "body.t is"),
    (asked({"t": "a *** b *** c"}), asked({"t": "a c b c"}), "body.t is"),
    (asked({"t": "x ***" * 30 + "!"}), asked({"t": "x " * 300 + "."}), "body.t is"),
]


@each(("recorded", "got"), SAME)
def test_what_differs_in_every_run_is_the_same(
    recorded: RecordedExchange, got: RecordedExchange
) -> None:
    assert [*differences(recorded, got)] == []
    assert find(got, [recorded], [0], ()) == RecordedMatch(0)


@each(("recorded", "got", "message"), DIFFERENT)
def test_a_difference_is_shown(
    recorded: RecordedExchange, got: RecordedExchange, message: str
) -> None:
    [line] = differences(recorded, got)
    assert line.startswith(message)


def test_fields_can_be_ignored() -> None:
    recorded, got = asked({"a": {"seed": 1}}), asked({"a": {"seed": 2}})
    assert find(got, [recorded], [0], ["seed"]) == RecordedMatch(0)
    match = find(got, [recorded], [0], [])
    assert match is not None
    assert match.differences


def test_an_equal_request_comes_before_one_that_fits() -> None:
    recording = [asked({"task": ID}), asked({"task": OTHER_ID}), asked({"task": OTHER_ID})]
    assert find(asked({"task": OTHER_ID}), recording, [0, 1, 2], ()) == RecordedMatch(1)
    assert find(asked({"task": OTHER_ID}), recording, [0, 2], ()) == RecordedMatch(2)
    assert find(asked({"task": OTHER_ID}), recording, [0], ()) == RecordedMatch(0)


def test_the_nearest_has_the_same_path() -> None:
    recording = [asked({"a": 1}, "/other"), asked({"b": 1, "c": 2}, "/here")]
    match = find(asked({"a": 1}, "/here"), recording, [0, 1], ())
    assert match is not None
    assert match.index == 1
    assert find(asked(), recording, [], ()) is None


def test_the_id_of_a_json_rpc_request_is_that_of_its_response() -> None:
    recorded = asked({"jsonrpc": "2.0", "id": 1})
    assert same_id(recorded, asked({"jsonrpc": "2.0", "id": "x"})) == (1, "x")
    assert same_id(recorded, recorded) is None
    assert same_id(asked({"id": 1}), asked({"id": 2})) is None
    assert same_id(asked(), asked({"id": 2})) is None


def test_long_values_are_cut() -> None:
    [line] = differences(asked({"a": "x" * 1000}), asked({"a": "y" * 1000}))
    assert len(line) < 350
