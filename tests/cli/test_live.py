"""What is on the screen and in the scrollback after an answer: every word once, in order."""

import random
import time
from collections.abc import Iterable
from queue import SimpleQueue

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from coreason_client.cli.chat._packets import PacketPresenter
from coreason_client.cli.output._live import LiveOutput
from coreason_manifest.definitions.presentation import Packet

from .packets import event, media, progress, text, warning
from .terminal import Emulator, EmulatorFile, squeezed

SIZES = [(80, 24), (40, 10), (20, 6), (132, 50), (7, 3)]
PARAGRAPH = " ".join(f"w{number:04d}" for number in range(300))
LONG_LINES = "".join(
    f"x{number} = {number}  # a comment that is so long that it is wrapped at 80 columns, and on\n"
    for number in range(60)
)
CJK = "".join(chr(0x4E00 + number) for number in range(400))
TABLE = "| name | value |\n|---|---|\n" + "".join(
    f"| row{number:02d} | value{number:02d} |\n" for number in range(30)
)
ANSWERS = {
    "paragraph": (PARAGRAPH, PARAGRAPH),
    "paragraphs": ("\n\n".join([PARAGRAPH] * 3), PARAGRAPH * 3),
    "code": (f"```\n{LONG_LINES}```\n\nbye", f"{LONG_LINES}bye"),
    "unclosed code": (f"```python\n{LONG_LINES}", LONG_LINES),
    "cjk": (CJK, CJK),
    "html": ("A vector<int> of <b>bold</b>\n\n<details>words</details>", None),
    "references": ("See [1].\n\n[1]: https://example.com/a\n", None),
    "an image": ("![a cat](https://example.com/cat.png)", None),
}


def draw(
    packets: Iterable[Packet], size: tuple[int, int], *, seed: int = 0, pause: float = 0.0
) -> Emulator:
    """Draw an answer; the drawing and the agent are held up at random."""
    chance = random.Random(seed)
    emulator = Emulator(*size)

    def delay() -> None:
        time.sleep(chance.random() * pause)

    console = Console(
        file=EmulatorFile(emulator, delay),
        force_terminal=True,
        width=size[0],
        height=size[1],
        emoji=False,
    )

    def status() -> str:
        delay()
        return chance.choice(["", "the connection was cut"])

    with PacketPresenter(LiveOutput(console, status)) as view:
        for packet in packets:
            view.show(packet)
            delay()
    return emulator


def pieces(answer: str, seed: int) -> Iterable[Packet]:
    chance, at = random.Random(seed), 0
    while at < len(answer):
        size = chance.randint(1, 120)
        yield text(answer[at : at + size])
        at += size


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", ANSWERS)
def test_every_word_is_there_once_and_in_order(name: str, size: tuple[int, int]) -> None:
    answer, expected = ANSWERS[name]
    emulator = draw(pieces(answer, 1), size, pause=0.01)
    assert squeezed(emulator.text) == squeezed(answer if expected is None else expected)


@pytest.mark.parametrize("seed", range(2))
def test_delays_between_agent_and_drawing_change_nothing(seed: int) -> None:
    answer = f"{PARAGRAPH}\n\n```python\n{LONG_LINES}```\n\nbye\n"
    emulator = draw(pieces(answer, seed), (80, 24), seed=seed, pause=0.05)
    assert squeezed(emulator.text) == squeezed(f"{PARAGRAPH}{LONG_LINES}bye")


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (12, 6)], ids=lambda size: str(size[0]))
def test_a_table_keeps_every_cell(size: tuple[int, int]) -> None:
    shown = draw(pieces(TABLE, 2), size, pause=0.01).text
    for number in range(30):
        assert squeezed(shown).count(f"row{number:02d}") == 1
        assert squeezed(shown).count(f"value{number:02d}") == 1
    assert "…" not in shown


PARTS = st.lists(
    st.one_of(
        # No ASCII letters: behind a fence they may be the name of a language, which is not shown.
        st.text("éßñ *`~#|[]()<>!&-\n\t漢", max_size=40).map(lambda words: ("text", words)),
        st.sampled_from(["media", "warning", "done", "block", "running"]).map(lambda k: (k, "")),
    ),
    max_size=12,
)


def as_packet(kind: str, words: str, number: int) -> Packet:
    match kind:
        case "text":
            return text(words)
        case "media":
            return media()
        case "warning":
            return warning()
        case "block":
            return event("MARKDOWN_BLOCK", {"content": f"block{number}"})
    status = "complete" if kind == "done" else "running"
    return progress(f"step{number}", 50, status)


def letters(words: str) -> str:
    return "".join(char for char in words if char.isalnum())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("```python\nx = 1\n```", "x = 1"),
        ("```python title=one.py\nx = 1\n```", "title=one.py"),
        ("~~~ Grüße\n~~~", "Grüße"),
    ],
)
def test_only_the_name_of_a_language_stays_behind_its_fence(answer: str, words: str) -> None:
    shown = draw([text(answer)], (80, 24)).text
    assert words in shown
    assert ("python" in shown) is ("title" in answer)


@settings(max_examples=60, deadline=None)
@given(PARTS, st.sampled_from([(40, 8), (80, 24)]))
@example([("text", "```"), ("text", "é")], (40, 8))
def test_no_letter_of_any_markdown_is_lost(
    parts: list[tuple[str, str]], size: tuple[int, int]
) -> None:
    packets = [as_packet(kind, words, number) for number, (kind, words) in enumerate(parts)]
    shown = letters(draw(packets, size).text)
    for char in "éßñ漢":
        wanted = sum(words.count(char) for kind, words in parts if kind == "text")
        assert shown.count(char) >= wanted
    marks = [
        {"block": f"block{number}", "done": f"step{number}"}[kind]
        for number, (kind, _) in enumerate(parts)
        if kind in {"block", "done"}
    ]
    places = [shown.index(mark) for mark in marks]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("item", "mark"),
    [
        (media(), "A cat: https://example.com/cat.png"),
        (warning(), "warning: slow_model: It takes a while."),
        (progress("Searching", 100, "complete"), "Searching"),
        (event("THOUGHT_TRACE", {"content": "Let me see."}), "Let me see."),
        (event("MARKDOWN_BLOCK", {"content": "a block"}), "a block"),
    ],
)
def test_things_stay_between_the_text_before_and_after_them(item: Packet, mark: str) -> None:
    shown = draw([text("Before it. "), item, text("After it.")], (80, 24)).text
    assert shown.index("Before it.") < shown.index(mark) < shown.index("After it.")


def test_a_thing_does_not_cut_a_word_in_two() -> None:
    shown = draw([text("Some wo"), warning(), media(), text("rd and more.")], (80, 24)).lines
    assert [line for line in shown if line] == [
        "Some word",
        "warning: slow_model: It takes a while.",
        "A cat: https://example.com/cat.png",
        "and more.",
    ]


def test_a_script_without_blanks_between_words_is_not_waited_for() -> None:
    shown = draw([text("漢字"), warning(), text("仮名")], (80, 24)).lines
    assert [line for line in shown if line] == [
        "漢字",
        "warning: slow_model: It takes a while.",
        "仮名",
    ]


def test_code_goes_on_as_code_after_something_else() -> None:
    packets = [text("```python\na = 1\nb ="), warning(), text(" 2\nc = '# no heading'\n```\n\nbye")]
    shown = [line.strip() for line in draw(packets, (80, 24)).lines if line]
    assert shown == [
        "a = 1",
        "b =",
        "warning: slow_model: It takes a while.",
        "2",
        "c = '# no heading'",
        "bye",
    ]


def test_what_does_not_change_is_not_drawn_again() -> None:
    emulator = Emulator(80, 24)
    file = EmulatorFile(emulator)
    drawings: SimpleQueue[int] = SimpleQueue()  # the writes before each drawing

    def status() -> str:
        drawings.put(file.writes)
        return ""

    console = Console(file=file, force_terminal=True, width=80, height=24)
    with LiveOutput(console, status) as view:
        view.write("the text ")
        while "the text" not in emulator.text:
            drawings.get(timeout=30)
        before = file.writes
        while not drawings.empty():
            drawings.get()
        later = [drawings.get(timeout=30) for _ in range(4)]
    assert later[1:] == [before] * 3


def test_an_error_of_the_terminal_reaches_the_reader_of_the_answer() -> None:
    def fail() -> None:
        raise BrokenPipeError

    file = EmulatorFile(Emulator(80, 24), fail)
    view = LiveOutput(Console(file=file, force_terminal=True, width=80, height=24))
    with pytest.raises(BrokenPipeError), view:
        view.write("text")
