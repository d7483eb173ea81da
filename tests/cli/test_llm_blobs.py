"""The data of attachments: taken out of messages, and put back exactly."""

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.llm._turns import MIN_LENGTH, pack, unpack

CONTENT = bytes(range(256))
DATA = b64encode(CONTENT).decode()
DIGEST = sha256(CONTENT).hexdigest()

# A few long contents: arbitrary ones would be slow, and not better.
contents = st.sampled_from([CONTENT, CONTENT[:-1], CONTENT[:-2], bytes(MIN_LENGTH)])
encoded = contents.map(lambda content: b64encode(content).decode())
prefixed = st.builds("{}{}".format, st.sampled_from(["", "data:a/b;base64,", "data:,"]), encoded)
texts = st.text(max_size=5) | prefixed | prefixed.map(lambda text: text + "=")
keys = st.text(max_size=3) | st.sampled_from(["$blob", "$object", "prefix"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@given(values)
def test_every_value_is_restored_exactly(value: Any) -> None:
    packed, blobs = pack(value)
    assert unpack(json.loads(json.dumps(packed)), blobs) == value


@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_data_becomes_a_reference(prefix: str) -> None:
    packed, blobs = pack([{"url": prefix + DATA}, DATA])
    assert blobs == {DIGEST: CONTENT}
    assert packed[0] == {"url": {"$blob": DIGEST, "prefix": prefix}}
    assert DATA not in json.dumps(packed)


@pytest.mark.parametrize(
    "text",
    [
        DATA[: MIN_LENGTH - 4],
        DATA + "\n",
        DATA[:-1],
        f"{DATA[:-3]}x==",  # it decodes to the same bytes
        "Z" * (MIN_LENGTH - 1) + "\u00e9",
        "a b" * 200,
    ],
)
def test_any_other_text_stays_text(text: str) -> None:
    assert pack(text) == (text, {})


def test_missing_data_is_noticed() -> None:
    packed, _ = pack(DATA)
    with pytest.raises(KeyError):
        unpack(packed, {})
