from typing import Any

from coreason_client.testing import ModelRequest
from coreason_client.testing._secret_names import HiddenHeaders
from tests.each import each


@each(
    ("messages", "text"),
    [
        ([], ""),
        ([{"role": "system", "content": "Be brief."}], ""),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "b"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "a"),
        ([{"role": "user", "content": [{"text": "a"}, {"image": 1}, "x", {"text": "b"}]}], "ab"),
        ([{"role": "user", "content": None}], ""),
    ],
)
def test_the_text_is_that_of_the_last_user_message(messages: list[Any], text: str) -> None:
    request = ModelRequest("chat", "m", False, messages, [], "/", HiddenHeaders({}), {})
    assert request.text == text
