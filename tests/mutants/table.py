"""All mutants."""

from . import client, engine, logs, protocols, server
from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *client.MUTANTS,
    *protocols.MUTANTS,
    *server.MUTANTS,
    *engine.MUTANTS,
    *logs.MUTANTS,
)
