"""Keys, Ctrl-C, Ctrl-Z, SIGTERM and a change of size while an answer is drawn, on a real pty."""

import re
import signal
import textwrap
from collections.abc import Iterator

import pytest

from .command import Process
from .session import Session
from .terminal import squeezed

WORDS = [f"w{number:04d}" for number in range(300)]
CODE = "".join(f"x{n} = {n}  # {'a long comment that wraps ' * 3}\n" for n in range(60))

AGENT = textwrap.dedent(
    f"""
    import asyncio

    CODE = {CODE!r}

    async def agent(request, stream):
        asked = request.payload.messages[-1].text
        if asked == "long":
            for number in range(300):
                await stream.write(f"w{{number:04d}} ")
                if number % 50 == 49:
                    await asyncio.sleep(0.1)
            await stream.write("\\n\\n```python\\n")
            for line in CODE.splitlines(keepends=True):
                await stream.write(line)
                await asyncio.sleep(0.005)
            await stream.write("```\\n\\nbye\\n")
            return
        await stream.write("You said " + asked)
        if asked.startswith("go on"):
            return
        await stream.write(" half an answer ")
        await asyncio.Event().wait()
    """
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "drawn.py").write_text(AGENT)
    with Process("serve", "drawn:agent", "--port", "0", cwd=folder) as process:
        [found] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        yield found


@pytest.mark.parametrize("size", [(80, 24), (33, 12)], ids=["80x24", "33x12"])
def test_a_long_answer_is_there_once_on_a_real_terminal(url: str, size: tuple[int, int]) -> None:
    with Session("chat", "--url", url, "long", size=size) as session:
        assert session.end() == 0
    assert squeezed(session.emulator.text) == squeezed(f"{' '.join(WORDS)}{CODE}bye")


def test_the_size_is_that_of_the_terminal_not_of_the_environment(url: str) -> None:
    env = {"COLUMNS": "80", "LINES": "50"}
    with Session("chat", "--url", url, "long", size=(33, 12), env=env) as session:
        assert session.end() == 0
    assert squeezed(session.emulator.text) == squeezed(f"{' '.join(WORDS)}{CODE}bye")


def test_a_resize_in_the_middle_loses_no_word(url: str) -> None:
    with Session("chat", "--url", url, "long") as session:
        session.expect("w0020")
        session.resize(60, 20)
        session.expect("x9 =")
        session.resize(100, 30)
        assert session.end() == 0
    shown = squeezed(session.emulator.text)
    assert not [word for word in WORDS if word not in shown]
    assert not [line for line in CODE.splitlines() if squeezed(line) not in shown]


def test_ctrl_c_shows_the_answer_once_and_what_was_typed_is_not_echoed(url: str) -> None:
    with Session("chat", "--url", url, "hello") as session:
        session.expect("half an answer")
        assert not session.echoes
        session.send("typed in between")
        session.send("\x03")
        assert session.end() == 130
    assert [line for line in session.emulator.lines if line] == [
        "You said hello half an answer",
        "stopped",
    ]


def test_a_line_typed_during_an_answer_is_the_next_question(url: str) -> None:
    with Session("chat", "--url", url) as session:
        session.say("long")
        session.expect("w0001")
        session.send("go on typed ahead\n")
        session.sees("You said go on typed ahead")
        assert not session.echoes  # between an answer and the prompt neither
        session.at_prompt()
        session.send("\x04")
        assert session.end() == 0
        assert session.comes_to_echo(True)
    shown = session.emulator.text
    assert shown.count("You said go on typed ahead") == 1
    assert shown.count("> go on typed ahead") == 1
    assert shown.index("bye") < shown.index("> go on typed ahead")


def test_several_lines_typed_during_an_answer_wait_at_the_prompt(url: str) -> None:
    with Session("chat", "--url", url) as session:
        session.say("long")
        session.expect("w0001")
        session.send("go on\x1b[A\x04with two\nlines")
        session.sees("> go onwith two\n  lines")  # and they are not sent before Enter is pressed
        session.say("")
        session.sees("You said go onwith two lines")
        session.at_prompt()
        session.send("\x04")
        assert session.end() == 0
    assert session.emulator.text.count("with two") == 2


def test_the_echo_comes_back_after_an_answer_and_after_an_error(url: str) -> None:
    with Session("chat", "--url", url, "long") as session:
        session.expect("w0001")
        assert not session.echoes
        assert session.end() == 0
        assert session.comes_to_echo(True)
    with Session("chat", "--url", "http://127.0.0.1:1", "--max-retries", "0", "x") as session:
        session.expect("cannot be reached")
        assert session.comes_to_echo(True)
        assert session.end() == 3


def test_sigterm_leaves_the_terminal_in_order(url: str) -> None:
    with Session("chat", "--url", url, "hello") as session:
        session.expect("half an answer")
        session.signal(signal.SIGTERM)
        assert session.end() == -signal.SIGTERM
        assert session.comes_to_echo(True)
    assert session.emulator.text.count("half an answer") == 1


def test_sigterm_in_a_conversation_leaves_the_terminal_in_order(url: str) -> None:
    with Session("chat", "--url", url) as session:
        session.at_prompt()
        session.send("hal")
        session.sees("> hal")
        session.signal(signal.SIGTERM)
        assert session.end() == 128 + signal.SIGTERM
        assert session.comes_to_echo(True)
    with Session("chat", "--url", url) as session:
        session.say("hello")
        session.expect("half an answer")
        session.signal(signal.SIGTERM)
        assert session.end() == -signal.SIGTERM
        assert session.comes_to_echo(True)


def test_ctrl_z_gives_the_terminal_back_and_the_answer_goes_on_afterwards(url: str) -> None:
    script = 'set -m; "$@"; echo suspended; read go; fg >/dev/null'
    with Session("chat", "--url", url, "hello", script=script) as session:
        session.expect("half an answer")
        session.send("\x1a")
        session.expect("suspended")
        assert session.comes_to_echo(True)
        assert "half an answer" not in session.emulator.text
        session.send("\n")
        session.expect("half an answer")
        assert session.comes_to_echo(False)
        session.send("\x03")
        assert session.end() == 130
        assert session.comes_to_echo(True)
    assert session.emulator.text.count("half an answer") == 1
