"""`coreason completion`: the script for completion in a shell."""

from enum import StrEnum
from typing import Annotated

import typer

from .exits import epilog, exit_codes
from .output import print_stdout

__all__ = ["COMPLETION_EPILOG", "Shell", "completion"]

COMPLETION_EPILOG = epilog(
    'eval "$(coreason completion bash)"      # in ~/.bashrc',
    'eval "$(coreason completion zsh)"       # in ~/.zshrc, after compinit',
    "coreason completion fish > ~/.config/fish/completions/coreason.fish",
    about="coreason --install-completion does it for the shell that it is started from.",
)


class Shell(StrEnum):
    """A shell that has completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")],
) -> None:
    """Print the script for completion in a shell.

    Tab then completes commands, options, profiles, models and saved conversations. Nothing is sent
    over the network.
    """
    with exit_codes():
        from typer._completion_shared import get_completion_script

        print_stdout(
            get_completion_script(
                prog_name="coreason", complete_var="_COREASON_COMPLETE", shell=shell.value
            )
        )
