"""The ids of agents: the default one, and a warning if two agents of a process share one."""

import logging
import sys
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from .log.base import StreamLog

logger = logging.getLogger("coreason_client.server")

_MAIN = ("__main__", "__mp_main__")  # the second one is in processes that multiprocessing starts


def agent_name(agent: object) -> str:
    """Return the name of an agent: that of its function, or of its class."""
    return _qualified(agent)[1].rpartition(".")[2]


def default_agent_id(agent: object) -> str:
    """Return the id of an agent that was given none: its module and its qualified name.

    The id must be the same in every process that serves the agent, so a program that is run as a
    script has the name under which it would be imported.
    """
    module, name = _qualified(agent)
    if module in _MAIN:
        module = _name_of_program(sys.modules.get(module))
    return f"{module}.{name}" if module else name


def _qualified(agent: object) -> tuple[str, str]:
    """Return the module and the qualified name of an agent's function, or of its class."""
    while isinstance(agent, partial):
        agent = agent.func
    named: Any = agent if getattr(agent, "__qualname__", None) else type(agent)
    name = named.__qualname__.replace(".<locals>", "").replace("<lambda>", "lambda")
    return getattr(named, "__module__", None) or "", name


def _name_of_program(program: Any) -> str:
    spec, file = getattr(program, "__spec__", None), getattr(program, "__file__", None)
    if spec is not None:  # python -m
        return str(spec.name).removesuffix(".__main__")
    return Path(file).stem if file else "main"


class _Identity(NamedTuple):
    """An id, and who has it: a version of an agent, which is named by ids of its objects.

    The objects themselves would keep the application alive if they refer to it.
    """

    agent_id: str
    version: str
    objects: tuple[int, ...]


# The applications on each log.
_apps: WeakKeyDictionary[StreamLog, WeakKeyDictionary[object, _Identity]] = WeakKeyDictionary()


def warn_if_shared(log: StreamLog, app: object, agent: object, agent_id: str, version: str) -> None:
    """Record the agent of an application on a log; warn if another agent there has the same id.

    It sees the applications of this process that exist now; of other processes, the takeover of
    durable streams sees another version.
    """
    try:
        apps = _apps.setdefault(log, WeakKeyDictionary())
    except TypeError:  # a log of somebody else, which has slots or no hash
        return
    own = _Identity(agent_id, version, _objects(agent))
    shared = any(one.agent_id == agent_id and one != own for one in apps.values())
    apps[app] = own
    if shared:
        logger.warning(
            "two agents on one log have the id %r, so each can read the streams, conversations and "
            "tasks of the other and continue its durable streams: give each its own agent_id",
            agent_id,
            extra={"event": "agent_id_shared", "agent_id": agent_id},
        )


def _objects(agent: object) -> tuple[int, ...]:
    if isinstance(agent, MethodType):  # a new object each time it is looked up
        return id(agent.__self__), id(agent.__func__)
    return (id(agent),)
