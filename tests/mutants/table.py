"""All mutants."""

from . import cli, client, logs, models, server
from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *client.MUTANTS,
    *server.MUTANTS,
    *logs.MUTANTS,
    *models.MUTANTS,
    *cli.MUTANTS,
)
