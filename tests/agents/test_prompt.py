"""The messages for a model: what is converted, what is left out, and what is joined."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.agents import _prompt
from coreason_client.agents._prompt import UnreadableError, conversation
from coreason_client.llm._check_call import check_call
from coreason_client.server import Turn
from coreason_client.server.engine._conversation import make_turn
from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    FilePart,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)

MODEL = "gpt-4o"


def message(role: Role, *parts: MessagePart, name: str | None = None) -> ChatMessage:
    return ChatMessage(role=role, parts=list(parts), name=name)


def system(text: str) -> ChatMessage:
    return message(Role.SYSTEM, TextPart(content=text))


def turn(question: str, answer: str = "", *, complete: bool = True) -> Turn:
    return make_turn([ChatMessage.user(question)], answer, None if complete else "cancelled")


def sent(
    *asked: ChatMessage, earlier: tuple[Turn, ...] = (), prompt: str | None = None, chars: int = 999
) -> list[tuple[str, Any]]:
    """Return the role and the content of each message for the model."""
    messages = conversation(asked, earlier, prompt, chars)
    return [(message["role"], message["content"]) for message in messages]


# One message


PIXEL = "iVBORw0KGgo="
PICTURE = "https://a.example/1.png"


def test_every_kind_of_message_is_converted() -> None:
    call = ToolCallPart(id="c1", name="look", arguments={"at": "sky"})
    thought = ReasoningPart(content="hm")
    asked = [
        message(Role.USER, TextPart(content="Hi"), TextPart(content="!"), name="ann"),
        message(Role.USER, TextPart(content="and"), name="not a name"),
        message(Role.ASSISTANT, thought, call),
        message(Role.TOOL, ToolCallResponsePart(id="c1", response={"sky": "blau"})),
        message(Role.ASSISTANT, TextPart(content="Blue.")),
        message(Role.ASSISTANT),
        message(
            Role.USER,
            TextPart(content="See"),
            UriPart(uri=PICTURE, modality="image"),
            BlobPart(content=PIXEL, mime_type="image/png"),
            UriPart(uri="https://a.example/paper"),
        ),
    ]
    sent = conversation(asked, [], None, 0)
    assert sent[0] == {"role": "user", "content": "Hi!", "name": "ann"}
    assert sent[1] == {"role": "user", "content": "and"}
    assert sent[2] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "name": "look", "arguments": {"at": "sky"}}],
    }
    assert sent[3] == {"role": "tool", "tool_call_id": "c1", "content": '{"sky": "blau"}'}
    assert sent[4] == {"role": "assistant", "content": "Blue."}
    assert sent[5]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "text", "text": "https://a.example/paper"},
    ]
    assert len(sent) == 6


@pytest.mark.parametrize("name", ["a", "a-Z_0", "x" * 64])
def test_a_name_that_providers_accept_is_sent(name: str) -> None:
    assert conversation([ChatMessage.user("Hi", name)], [], None, 0)[0]["name"] == name


@pytest.mark.parametrize("name", [None, "", "x" * 65, "größe", "a b", "a\n"])
def test_any_other_name_is_left_out(name: str | None) -> None:
    assert "name" not in conversation([ChatMessage.user("Hi", name)], [], None, 0)[0]


@pytest.mark.parametrize(
    ("part", "is_image"),
    [
        (UriPart(uri="https://a.example/x", mime_type="image/png"), True),
        (UriPart(uri="https://a.example/x", modality="image"), True),
        (UriPart(uri="https://a.example/x", mime_type="audio/wav"), False),
        (UriPart(uri="https://a.example/x.png"), False),
    ],
)
def test_a_uri_is_an_image_if_its_type_or_its_modality_says_so(
    part: UriPart, is_image: bool
) -> None:
    [[_, [content]]] = sent(message(Role.USER, part))
    assert content["type"] == ("image_url" if is_image else "text")


def test_a_blob_needs_a_type_to_be_sent() -> None:
    with pytest.raises(UnreadableError, match="a part of type blob"):
        sent(message(Role.USER, BlobPart(content=PIXEL, modality="image")))


def test_a_blob_of_another_type_is_audio_or_a_file() -> None:
    audio = BlobPart(content=PIXEL, mime_type="audio/mpeg")
    paper = BlobPart(content=PIXEL, mime_type="application/pdf")
    [[_, parts]] = sent(message(Role.USER, audio, paper))
    assert parts == [
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "mp3"}},
        {
            "type": "file",
            "file": {"file_data": f"data:application/pdf;base64,{PIXEL}", "filename": "file.pdf"},
        },
    ]
    broken = BlobPart(content="not base64", mime_type="application/pdf")
    with pytest.raises(UnreadableError, match=r"blob \(application/pdf\)"):
        sent(message(Role.USER, broken))


def test_an_image_of_an_earlier_turn_is_sent_again_whatever_its_size() -> None:
    seen = message(Role.USER, BlobPart(content="QUJD" * 5000, mime_type="image/png"))
    earlier = make_turn([seen], "A cat.", None)
    chars = _prompt.MEDIA_LENGTH + 6
    found = sent(ChatMessage.user("Which colour?"), earlier=(earlier,), chars=chars)
    assert [role for role, _ in found] == ["user", "assistant", "user"]
    found = sent(ChatMessage.user("Which colour?"), earlier=(earlier,), chars=chars - 1)
    assert [role for role, _ in found] == ["user"]


def test_the_result_of_a_tool_is_text() -> None:
    results = [
        message(Role.TOOL, ToolCallResponsePart(id="c", response=response))
        for response in ("plain", {"é": 1}, None)
    ]
    contents = [content for _, content in sent(*results)]
    assert contents == ["plain", '{"é": 1}', "null"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ([], "has no message"),
        ([message(Role.SYSTEM, TextPart(content="Rhyme."))], "has no message"),
        ([message(Role.USER, FilePart(file_id="f"))], "a part of type file,"),
        ([message(Role.USER, BlobPart(content="", mime_type="text/csv"))], r"blob \(text/csv\)"),
        ([message(Role.TOOL, TextPart(content="It is."))], "a part of type text"),
    ],
)
def test_content_that_cannot_be_sent_is_an_error(asked: list[ChatMessage], says: str) -> None:
    with pytest.raises(UnreadableError, match=says):
        conversation(asked, [], "Be brief.", 0)


# System prompts


def test_the_prompts_of_the_agent_and_of_the_request_come_first_in_this_order() -> None:
    assert sent(ChatMessage.user("Hi"), system("Rhyme."), system("Sing."), prompt="Be brief.") == [
        ("system", "Be brief."),
        ("system", "Rhyme."),
        ("system", "Sing."),
        ("user", "Hi"),
    ]


def test_only_the_latest_earlier_prompt_counts_and_only_if_the_request_has_none() -> None:
    earlier = (
        make_turn([system("One."), ChatMessage.user("1")], "a", None),
        make_turn([system("Two."), ChatMessage.user("2")], "b", None),
    )
    prompts = [
        text for role, text in sent(ChatMessage.user("3"), earlier=earlier) if role == "system"
    ]
    assert prompts == ["Two."]
    asked = (system("Three."), ChatMessage.user("3"))
    prompts = [text for role, text in sent(*asked, earlier=earlier) if role == "system"]
    assert prompts == ["Three."]


def test_an_empty_prompt_of_a_request_is_none() -> None:
    assert sent(system(""), ChatMessage.user("Hi")) == [("user", "Hi")]


# Earlier turns


@pytest.mark.parametrize(
    ("chars", "kept"), [(8, []), (9, ["2"]), (17, ["2"]), (18, ["1", "2"]), (0, [])]
)
def test_the_latest_turns_that_fit_are_kept_whole(chars: int, kept: list[str]) -> None:
    earlier = (turn("1" * 5, "Yes."), turn("2" * 5, "Yes."))
    found = sent(ChatMessage.user("3"), earlier=earlier, chars=chars)
    assert [content[0] for role, content in found if role == "user"] == [*kept, "3"]
    assert [content for role, content in found if role == "assistant"] == ["Yes."] * len(kept)


def test_a_long_turn_hides_those_before_it_only_if_it_was_answered() -> None:
    before = turn("Hello", "Hi.")
    answered = (before, turn("long " * 10, "x"))
    assert sent(ChatMessage.user("?"), earlier=answered, chars=20) == [("user", "?")]
    cancelled = (before, turn("long " * 10, complete=False))
    found = sent(ChatMessage.user("?"), earlier=cancelled, chars=20)
    assert found == [("user", "Hello"), ("assistant", "Hi."), ("user", "?")]


def test_of_an_earlier_message_that_cannot_be_sent_only_the_text_is_kept() -> None:
    unsupported = message(Role.USER, TextPart(content="Read this"), FilePart(file_id="f"))
    called = message(Role.ASSISTANT, ToolCallPart(id="c", name="f", arguments={}))
    result = message(Role.TOOL, ToolCallResponsePart(id="c", response="r"))
    earlier = (make_turn([unsupported, called, result], "Done.", None),)
    assert sent(ChatMessage.user("And?"), earlier=earlier) == [
        ("user", "Read this"),
        ("assistant", "Done."),
        ("user", "And?"),
    ]


def test_an_unanswered_question_is_joined_to_the_next_one() -> None:
    earlier = (turn("One?", complete=False), turn("Two?", "Yes."), turn("Three?", complete=False))
    assert sent(ChatMessage.user("Four?"), earlier=earlier) == [
        ("user", "One?\n\nTwo?"),
        ("assistant", "Yes."),
        ("user", "Three?\n\nFour?"),
    ]


def test_joined_questions_keep_their_images_and_a_name_that_both_have() -> None:
    pictured = ChatMessage(
        role=Role.USER,
        parts=[TextPart(content="See"), UriPart(uri=PICTURE, modality="image")],
        name="ann",
    )
    text = {"type": "text", "text": "And?"}
    parts = [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    earlier = [Turn((pictured,), "cancelled")]
    for name in ("ann", "bob", None):
        asked = [ChatMessage.user("And?", name)]
        [joined] = conversation(asked, earlier, None, 1000)
        assert joined["content"] == [*parts, text]
        assert joined.get("name") == ("ann" if name == "ann" else None)
    asked = [pictured, ChatMessage.user("!")]
    [joined, last] = conversation(asked, [Turn((ChatMessage.user("And?"),), "x")], None, 99)
    assert joined["content"] == [text, *parts]
    assert last["content"] == "!"


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
PARTS: st.SearchStrategy[MessagePart] = st.one_of(
    TEXTS.map(lambda text: TextPart(content=text)),
    TEXTS.map(lambda text: FilePart(file_id=text)),
    TEXTS.map(lambda text: UriPart(uri=text)),
    TEXTS.map(lambda text: ToolCallResponsePart(id="c", response=text)),
)
MESSAGES = st.builds(
    ChatMessage,
    role=st.sampled_from(list(Role)),
    parts=st.lists(PARTS, max_size=3),
    name=st.none() | TEXTS,
)


TURNS = st.builds(
    Turn,
    messages=st.lists(MESSAGES, max_size=4).map(tuple),
    error=st.none() | st.just("cancelled"),
)


@given(st.lists(TURNS, max_size=5), st.text(max_size=8), st.integers(0, 60))
def test_whatever_was_said_earlier_can_be_sent_again(
    earlier: list[Turn], question: str, chars: int
) -> None:
    """Nothing in a history keeps a question from being asked, and no bound is passed."""
    asked = [ChatMessage.user(question)]
    [*before, last] = conversation(asked, earlier, "S", chars)
    assert last["role"] == "user"
    content = last["content"]
    assert (content if isinstance(content, str) else content[-1]["text"]).endswith(question)
    assert before[0] == {"role": "system", "content": "S"}
    spoken = [said for said in before if said["role"] != "system"]
    assert {said["role"] for said in spoken} <= {"user", "assistant"}
    kept = [said for turn in _prompt._latest(earlier, chars) for said in turn]
    assert sum(_prompt._length(said) for said in kept) <= chars
    check_call([*before, last], MODEL, None, 0.5, 10)


@given(st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=5), TEXTS)
def test_questions_and_answers_alternate(said: list[tuple[str, str, bool]], question: str) -> None:
    turns = [
        make_turn([ChatMessage.user(asked)], answered, None if complete else "cancelled")
        for asked, answered, complete in said
    ]
    sent = conversation([ChatMessage.user(question)], turns, None, 10_000)
    roles = [message["role"] for message in sent]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    words = "".join(message["content"] for message in sent)
    assert all(asked in words and answered in words for asked, answered, _ in said)
