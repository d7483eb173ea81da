"""Agents of other frameworks as agents of the server kit, one module per framework.

A framework is recognised by the names of its classes, so none is imported here. The module of an
adapter is imported when an object of its framework is served.
"""

import importlib
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeAlias

__all__ = ["FrameworkAgent", "Recognised", "adapted", "imported", "named", "recognised"]

logger = logging.getLogger("coreason_client.server")

AgentFunction: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, None]]


class FrameworkAgent(Protocol):
    """An object of a framework, as type checkers see it."""

    name: Any


class Recognised(NamedTuple):
    """The name of the adapter for an object of a framework, and what the object is."""

    adapter: str | None
    words: str


# By the package and the name of a class, which may be a base class of the user's own one: the
# adapter for its objects and what they are, or None and why they cannot be served.
_FRAMEWORKS = {
    ("pydantic_ai", "AbstractAgent"): Recognised("pydantic_ai", "an agent of pydantic-ai"),
    ("langgraph", "Pregel"): Recognised("langgraph", "a graph of LangGraph"),
    ("langgraph", "StateGraph"): Recognised(None, "compile the StateGraph: pass graph.compile()"),
    ("agents", "Agent"): Recognised("openai_agents", "an agent of the OpenAI Agents SDK"),
}


def adapted(agent: object, name: str | None = None) -> Any:
    """Return the agent made of an object of a framework, and log it; any other object unchanged.

    `name` is the name of the object for people, such as `my_module:agent`, and gives its agent a
    name; by default the agent has the name that the framework gave the object.

    Raises:
        TypeError, ValueError: the object is of a framework, but cannot be served.
        ImportError: a package that the adapter needs is missing.
    """
    if (found := recognised(agent)) is None:
        return agent
    if found.adapter is None:
        raise TypeError(found.words)
    adapter = importlib.import_module(f"{__name__}.{found.adapter}")
    made = named(adapter.as_agent(agent), agent, name)
    extra = {"event": "agent_recognised", "framework": found.words}
    logger.info("%s is %s", name or "the agent", found.words, extra=extra)
    return made


def recognised(obj: object) -> Recognised | None:
    """Return what an object of a framework is, None for any other object."""
    for kind in type(obj).__mro__:
        package = kind.__module__.partition(".")[0]
        found = _FRAMEWORKS.get((package, kind.__name__))
        # Many projects have their own package of this name; only the SDK has a Runner.
        if found and (package != "agents" or hasattr(sys.modules.get(package), "Runner")):
            return found
    return None


def named(agent: AgentFunction, obj: Any, name: str | None = None) -> AgentFunction:
    """Give the function of an agent the name and the description of the framework's object.

    They are its default id and its description in the A2A card. The name is `name`, which is as in
    `adapted`, otherwise that of the object, otherwise that of its class.
    """
    given, kind = getattr(obj, "name", None), type(obj)
    module, qualname = kind.__module__.partition(".")[0], kind.__qualname__
    if name is not None:
        module, _, qualname = name.partition(":")
    elif isinstance(given, str) and given.strip():
        module, qualname = "", given
    agent.__module__, agent.__qualname__ = module, qualname
    agent.__name__ = qualname.rpartition(".")[2]
    description = getattr(obj, "description", None)
    agent.__doc__ = description if isinstance(description, str) else None
    return agent


def imported(module: str, package: str) -> Any:
    """Return a module of a framework; `package` is the name with which it is installed.

    Raises:
        ImportError: the package is not installed, or another one has its name.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not module.startswith(error.name or "?"):
            raise
        needed = f"this agent needs the package {package}: pip install {package}"
        raise ImportError(needed, name=error.name) from None
