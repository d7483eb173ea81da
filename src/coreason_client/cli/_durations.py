"""Durations on the command line: seconds, or a number with a unit, such as 90, 15m or 7d. Pure."""

import re

import typer

__all__ = ["parse_duration"]

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)", re.ASCII)


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration.

    Raises:
        typer.BadParameter: it is not a duration.
    """
    match = _DURATION.fullmatch(str(text))
    if match is None:
        raise typer.BadParameter(
            f"must be seconds, or a number with s, m, h or d, such as 90, 15m or 7d; got {text!r}"
        )
    return float(match[1]) * _UNITS[match[2]]
