"""The public face: the names, their docstrings, and what importing them costs."""

import importlib
import inspect
import subprocess
import sys
from typing import Any

import pytest

import coreason_client
from coreason_client import A2AClient, AsyncA2AClient, AsyncCAPClient, CAPClient

FACES = ["coreason_client", "coreason_client.a2a", "coreason_client.llm", "coreason_client.sse"]
DEFINITIONS = [
    f"coreason_manifest.definitions.{name}"
    for name in ("message", "presentation", "request", "service", "session")
]
TWINS = [(CAPClient, AsyncCAPClient), (A2AClient, AsyncA2AClient)]
RENAMED = {
    "close": "aclose",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
}


@pytest.mark.parametrize("module", [*FACES, *DEFINITIONS])
def test_public_names_are_sorted_and_there(module: str) -> None:
    face: Any = importlib.import_module(module)
    assert list(face.__all__) == sorted(face.__all__)
    for name in face.__all__:
        assert getattr(face, name) is not None


@pytest.mark.parametrize("module", [*FACES, *DEFINITIONS])
def test_every_public_class_and_function_has_a_docstring(module: str) -> None:
    face: Any = importlib.import_module(module)
    for name in face.__all__:
        value = getattr(face, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__doc__ or "").strip(), f"{module}.{name}"


@pytest.mark.parametrize("face", [c for pair in TWINS for c in pair])
def test_every_public_method_has_a_docstring(face: type) -> None:
    for name, value in inspect.getmembers(face):
        if not name.startswith("_"):
            assert (value.__doc__ or "").strip(), f"{face.__name__}.{name}"


@pytest.mark.parametrize(("sync", "async_"), TWINS)
def test_twins_have_the_same_methods_and_parameters(sync: type, async_: type) -> None:
    def surface(face: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(value).parameters)
            for name, value in vars(face).items()
            if inspect.isfunction(value)
        }

    expected = {RENAMED.get(name, name): found for name, found in surface(sync).items()}
    assert surface(async_) == expected


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        coreason_client.no_such_name  # noqa: B018
    assert dir(coreason_client) == coreason_client.__all__


@pytest.mark.proves("A2A-public")
def test_the_names_of_the_a2a_document_are_exported() -> None:
    document = {"A2AClient", "AgentCardResolver", "ClientError", "EventStream", "JsonRpcTransport"}
    assert document | {"Transport"} <= set(coreason_client.__all__)
    assert coreason_client.ClientError is coreason_client.A2AError


@pytest.mark.parametrize("name", ["CAPClient", "A2AClient", "ServiceRequest", "CAPError"])
def test_naming_one_client_loads_nothing_of_the_others(name: str) -> None:
    heavy = [
        *("aiohttp", "genai_prices", "opentelemetry", "prometheus_client", "pydantic_settings"),
        *("redis", "rich", "starlette", "typer", "uvicorn"),
    ]
    code = (
        f"from coreason_client import {name}; import sys;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "[]", done.stderr
