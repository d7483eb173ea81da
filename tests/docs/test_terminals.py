"""The player of pages with terminals notices what is not as printed."""

from pathlib import Path

import pytest

from .terminals import Player

FENCE = "```"
SERVER = f"""
{FENCE}sh title="serve.sh"
trap 'echo stopped >> log; exit 0' INT
echo started
while true; do sleep 0.05; done
{FENCE}

{FENCE}sh title="terminal 1"
bash serve.sh
{FENCE}

{FENCE}text
started
{FENCE}
"""


def command(terminal: int, text: str, output: str | None = None) -> str:
    block = f'{FENCE}sh title="terminal {terminal}"\n{text}\n{FENCE}\n\n'
    return block if output is None else f"{block}{FENCE}text\n{output}\n{FENCE}\n\n"


@pytest.fixture
def player(tmp_path: Path) -> Player:
    return Player(tmp_path, {"8000": "8123"})


def test_a_new_command_interrupts_the_server_of_its_terminal(player: Player) -> None:
    page = SERVER + command(2, "echo 8000", "8000") + command(1, "cat log", "stopped")
    with player:
        player.play(page, "p")
        assert player.output("terminal 2") == "8123\n"


def test_a_terminal_keeps_its_variables(player: Player) -> None:
    page = command(1, "export NAME=one; false", "") + command(2, "export NAME=two; exec true")
    with player:
        player.play(page + command(1, "echo $NAME; unset NAME", "one"), "p")
        player.play(command(1, 'echo "now $NAME"', "now"), "p")


def test_other_output_is_noticed(player: Player) -> None:
    with player, pytest.raises(AssertionError, match="has not printed"):
        player.play(command(1, "echo one", "two"), "p")


def test_a_failing_command_is_noticed(player: Player) -> None:
    with player, pytest.raises(AssertionError, match="ended with 3"):
        player.play(command(1, "exit 3"), "p")


def test_the_output_of_another_terminal_is_compared(player: Player) -> None:
    later = f'{FENCE}text title="terminal 1"\nstarted\n{FENCE}\n'
    with player:
        player.play(SERVER + later, "p")
    with player, pytest.raises(AssertionError, match="has not printed"):
        player.play(command(1, "echo one", "one") + later, "p")
