"""The group of all commands, some of which have names of two words."""

from typing import Any

from typer.core import TyperGroup

__all__ = ["CommandGroup"]


class CommandGroup(TyperGroup):
    """Finds `llm logs` beside `llm`, which takes any other words as a question."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the rest of the arguments."""
        name = " ".join(args[:2])
        if len(args) > 1 and (command := self.get_command(ctx, name)) is not None:
            return name, command, args[2:]
        return super().resolve_command(ctx, args)
