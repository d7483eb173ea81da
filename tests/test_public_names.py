"""The public face: the names, their docstrings, and what importing them costs."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import coreason_client
from coreason_client import (
    A2AClient,
    AsyncA2AClient,
    AsyncCAPClient,
    AsyncPacketStream,
    CAPClient,
    PacketStream,
    a2a,
    llm,
)
from scripts.measure_code import written

LAZY = ["coreason_client", "coreason_client.a2a", "coreason_client.llm"]
FACES = [*LAZY, "coreason_client.sse"]
DEFINITIONS = [
    f"coreason_manifest.definitions.{name}"
    for name in ("message", "presentation", "request", "service", "session")
]
TWINS = [
    (CAPClient, AsyncCAPClient),
    (PacketStream, AsyncPacketStream),
    (A2AClient, AsyncA2AClient),
    (a2a.AgentCardResolver, a2a.AsyncAgentCardResolver),
    (a2a.JsonRpcTransport, a2a.AsyncJsonRpcTransport),
    (a2a.RestTransport, a2a.AsyncRestTransport),
    (a2a.GrpcTransport, a2a.AsyncGrpcTransport),
    (a2a.CardTransport, a2a.AsyncCardTransport),
    (a2a.Transport, a2a.AsyncTransport),
    (a2a.EventStream, a2a.AsyncEventStream),
    (llm.LLMClient, llm.AsyncLLMClient),
    (llm.RunStream, llm.AsyncRunStream),
]
RENAMED = {
    "close": "aclose",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
    "__next__": "__anext__",
}


@pytest.mark.parametrize("module", [*FACES, *DEFINITIONS])
def test_public_names_are_sorted_and_there(module: str) -> None:
    face: Any = importlib.import_module(module)
    assert list(face.__all__) == sorted(face.__all__)
    for name in face.__all__:
        assert getattr(face, name) is not None


@pytest.mark.parametrize("module", [*LAZY, "coreason_client.testing"])
def test_type_checkers_know_the_names_that_are_imported_on_first_use(module: str) -> None:
    face: Any = importlib.import_module(module)
    tree = ast.parse(Path(face.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    known = {
        str(alias.asname): "." * node.level + (node.module or "")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert known == face._MODULES
    assert sorted({*known, *({"__version__"} & {*face.__all__})}) == face.__all__


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


Parameters: TypeAlias = list[tuple[str, str, Any]]


def surface(face: type) -> dict[str, Parameters]:
    """Return the methods of a class with the name, kind and default of every parameter."""
    found = {}
    for name, value in vars(face).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(function):
            parameters = inspect.signature(function).parameters.values()
            kind = type(value).__name__
            listed = [(p.name, p.kind.name, _plain(p.default)) for p in parameters]
            found[f"{kind} {name}"] = listed
    return found


def _plain(default: Any) -> Any:
    return "required" if default is inspect.Parameter.empty else repr(default)


@pytest.mark.parametrize(("sync", "async_"), TWINS)
def test_twins_have_the_same_methods_and_parameters(sync: type, async_: type) -> None:
    expected = {}
    for name, found in surface(sync).items():
        kind, _, plain = name.partition(" ")
        expected[f"{kind} {RENAMED.get(plain, plain)}"] = found
    assert surface(async_) == expected


class _Original:
    def call(self, url: str, *, max_retries: int = 3) -> None: ...
    @classmethod
    def connect(cls, base_url: str) -> None: ...


class _OtherDefault(_Original):
    connect = vars(_Original)["connect"]

    def call(self, url: str, *, max_retries: int = 4) -> None: ...


class _OtherKind(_Original):
    connect = vars(_Original)["connect"]

    def call(self, url: str, max_retries: int = 3) -> None: ...


class _OtherName(_Original):
    call = _Original.call

    @classmethod
    def connect(cls, url: str) -> None: ...


@pytest.mark.parametrize("other", [_OtherDefault, _OtherKind, _OtherName])
def test_the_comparison_of_twins_sees_defaults_kinds_and_classmethods(other: type) -> None:
    assert surface(other).keys() == surface(_Original).keys()
    assert surface(other) != surface(_Original)


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
        *(
            "aiohttp",
            "cryptography",
            "genai_prices",
            "jwt",
            "opentelemetry",
            "prometheus_client",
            "pydantic_settings",
        ),
        *("redis", "rich", "starlette", "typer", "uvicorn"),
    ]
    code = (
        f"from coreason_client import {name}; import sys;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_private_module_has_no_list_of_names_unless_it_passes_others_on() -> None:
    repeated = []
    for module in written():
        private = any(part.startswith("_") for part in module.name.split("."))
        assigned = [node for node in module.tree.body if isinstance(node, ast.Assign)]
        lists = [node.value for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
        if private and module.path.name != "__init__.py" and lists:
            imports = (n for n in module.tree.body if isinstance(n, ast.Import | ast.ImportFrom))
            imported = {alias.asname or alias.name for node in imports for alias in node.names}
            if imported.isdisjoint(ast.literal_eval(lists[0])):
                repeated.append(module.name)
    assert not repeated
