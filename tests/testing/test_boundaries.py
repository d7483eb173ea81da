from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing._recording._secrets import merged_spans, replace_spans, spans_of
from tests.each import each


@each(
    ("chunks", "part", "expected"),
    [
        (["ab", "cd"], "x", ["ab", "cd"]),
        (["a-key-b"], "key", ["a-***-b"]),
        (["a-k", "ey-b"], "key", ["a-*", "**-b"]),
        (["a-", "key", "-b"], "key", ["a-", "***", "-b"]),
        (["k", "e", "y"], "key", ["*", "*", "*"]),
        (["long", "er", "-key"], "longer-key", ["***", "", ""]),
        (["", "key", ""], "key", ["", "***", ""]),
        (["keykey", "key"], "key", ["******", "***"]),
    ],
)
def test_a_part_is_replaced_and_the_boundaries_stay(
    chunks: list[str], part: str, expected: list[str]
) -> None:
    data = [chunk.encode() for chunk in chunks]
    spans = spans_of(b"".join(data), part.encode())
    assert [chunk.decode() for chunk in replace_spans(data, spans, b"***")] == expected


CHUNKS = st.lists(st.text("abk", max_size=4).map(str.encode), max_size=6)


@given(CHUNKS, st.text("abk", min_size=1, max_size=3).map(str.encode), st.binary(max_size=5))
def test_the_body_is_the_same_as_without_chunks(
    chunks: list[bytes], part: bytes, replacement: bytes
) -> None:
    body = b"".join(chunks)
    changed = replace_spans(chunks, spans_of(body, part), replacement)
    assert b"".join(changed) == body.replace(part, replacement)
    assert len(changed) == len(chunks)


def test_spans_that_overlap_are_joined() -> None:
    assert merged_spans([(5, 7), (0, 2), (1, 4), (7, 8)]) == [(0, 4), (5, 7), (7, 8)]
