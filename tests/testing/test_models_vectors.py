from struct import pack, unpack

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing._models._vectors import embeddings_reply, vector_of


@given(st.text(), st.integers(1, 100))
def test_a_vector_is_the_same_in_every_run_and_exact_in_32_bits(text: str, size: int) -> None:
    vector = vector_of(text, size)
    assert len(vector) == size
    assert vector == vector_of(text, size)
    assert all(-1 <= number <= 1 for number in vector)
    assert [unpack("f", pack("f", number))[0] for number in vector] == vector


def test_texts_have_different_vectors() -> None:
    assert vector_of("a") != vector_of("b")
    assert vector_of("one") == vector_of("one", 100)[:8]


def test_a_single_text_and_the_texts_of_cohere() -> None:
    reply = embeddings_reply("openai", "/v1/embeddings", {"input": "a b"})
    assert reply["data"][0]["embedding"] == vector_of("a b")
    assert reply["usage"]["prompt_tokens"] == 2
    cohere = embeddings_reply("bedrock", "/model/m/invoke", {"texts": ["a", "b"]})
    assert cohere == {"embeddings": [vector_of("a"), vector_of("b")]}
