"""All mutants."""

from . import (
    a2a_server,
    browsers,
    calls,
    cli,
    cli_llm,
    client,
    clouds,
    durable,
    durable_models,
    engine,
    inspector,
    logs,
    models,
    observe,
    protocols,
    push,
    responses,
    router,
    server,
    testing,
    tools,
    trust,
)
from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    *client.MUTANTS,
    *protocols.MUTANTS,
    *trust.MUTANTS,
    *models.MUTANTS,
    *clouds.MUTANTS,
    *calls.MUTANTS,
    *tools.MUTANTS,
    *responses.MUTANTS,
    *observe.MUTANTS,
    *cli.MUTANTS,
    *cli_llm.MUTANTS,
    *server.MUTANTS,
    *engine.MUTANTS,
    *durable.MUTANTS,
    *durable_models.MUTANTS,
    *logs.MUTANTS,
    *push.MUTANTS,
    *router.MUTANTS,
    *a2a_server.MUTANTS,
    *browsers.MUTANTS,
    *inspector.MUTANTS,
    *testing.MUTANTS,
)
