"""All mutants."""

from . import client, logs, server
from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (*client.MUTANTS, *server.MUTANTS, *logs.MUTANTS)
