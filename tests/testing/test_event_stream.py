from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._eventstream import EventStreamDecoder
from coreason_client.testing._models._bedrock_wire import encode

NAMES = st.text("abc:-", min_size=1, max_size=9)


@given(st.lists(st.tuples(st.dictionaries(NAMES, st.text(max_size=9)), st.binary()), max_size=4))
def test_our_decoder_reads_the_frames(messages: list[tuple[dict[str, str], bytes]]) -> None:
    decoder = EventStreamDecoder(100_000)
    data = b"".join(encode(headers, payload) for headers, payload in messages)
    found = [(dict(message.headers), message.payload) for message in decoder.messages(data)]
    assert found == messages
