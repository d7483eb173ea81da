"""All mutants."""

from . import client, engine, logs, server
from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *client.MUTANTS,
    *server.MUTANTS,
    *engine.MUTANTS,
    *logs.MUTANTS,
)
