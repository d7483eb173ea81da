"""The commands `coreason llm`, `coreason llm models` and `coreason llm logs`."""

from typing import Any

import typer

from .._logs import show_logs
from .._options import set_parameters
from ..exits import epilog, exit_codes
from ._logs import LOGS_EPILOG, logs
from ._models import MODELS_EPILOG, models
from ._options import AskOptions, complete_model

__all__ = ["EPILOG", "LOGS_EPILOG", "MODELS_EPILOG", "complete_model", "llm", "logs", "models"]


EPILOG = epilog(
    "coreason llm Why is the sky blue",
    'coreason llm -m anthropic/claude-sonnet-4-5 "Hello"',
    'git diff | coreason llm "Write a commit message." -t 0',
    'coreason llm -a photo.png "What is this?"',
    'coreason llm -c "And in French?"',
    """coreason llm --schema '{"type": "object"}' "Facts about Rome" | jq .""",
    'coreason llm --tool my_module:get_weather "Do I need an umbrella in Rome?"',
    'coreason llm --mcp "python files.py" "What is in README.md?"',
    'coreason llm --json "Hello" | jq .usage',
    'coreason llm --base-url http://127.0.0.1:11434/v1 -m llama3.2 "Hello"',
    "coreason llm models anthropic",
    "coreason llm logs",
    about="The key is read from LLM_API_KEY or from the variable of the provider, such as "
    "ANTHROPIC_API_KEY, in the environment or in .env. coreason llm models lists models, "
    "coreason llm logs the saved conversations; both have a --help.",
)


def llm(context: typer.Context, **values: Any) -> None:
    """Ask a model a question, or continue a conversation with it.

    The text goes to stdout as it arrives. In a terminal or with -v, the tokens and the cost go to
    stderr. Ctrl-C stops the answer and closes the connection. Conversations are saved on this
    machine; see coreason llm logs.
    """
    options = AskOptions(**values)
    with exit_codes():
        # Logs must not be mixed with the answer unless -v asks for them.
        show_logs(options.verbose)
        from ._question_answer import ask

        ask(options)


set_parameters(llm, AskOptions)
