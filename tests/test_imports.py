"""Import rules: the tables below list what each package may import; `ast` reads the imports."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.each import each

SRC = Path(__file__).parent.parent / "src"

# The packages and modules of this project that each package may import. A module belongs to the
# longest entry that its name starts with.
PACKAGES: dict[str, set[str]] = {
    "coreason_manifest.definitions": set(),
    "coreason_client": {"public"},
    "coreason_client._context": set(),
    "coreason_client._clock": set(),
    "coreason_client._fallback": set(),
    "coreason_client._host_port": set(),
    "coreason_client._lazy": set(),
    "coreason_client._version": set(),
    "coreason_client.errors": set(),
    "coreason_client._ownership": {"coreason_client._http._types"},
    "coreason_client._retry": set(),
    "coreason_client._connections": {
        "coreason_client._clock",
        "coreason_client._drive",
        "coreason_client._http._redirect",
        "coreason_client._http._types",
        "coreason_client._retry",
        "coreason_client.sse",
    },
    "coreason_client._secret": set(),
    "coreason_client._valkey_address": {
        "coreason_client._host_port",
        "coreason_client._secret",
        "coreason_client.errors",
    },
    "coreason_client._drive": {"coreason_client._ownership", "coreason_client._http._types"},
    "coreason_client._drive_async": {
        "coreason_client._drive",
        "coreason_client._http._types",
    },
    "coreason_client._drive_sync": {
        "coreason_client._drive",
        "coreason_client._http._types",
    },
    "coreason_client.sse": {"coreason_client.errors"},
    "coreason_client._http._types": {"coreason_client.errors"},
    "coreason_client._http._checks": {"coreason_client.errors"},
    "coreason_client._http._redirect": {
        "coreason_client._drive",
        "coreason_client._http._types",
    },
    "coreason_client._http": {
        "coreason_client._clock",
        "coreason_client._fallback",
        "coreason_client._ownership",
        "coreason_client._http._checks",
        "coreason_client._http._types",
    },
    "coreason_client.cap": {"core"},
    "coreason_client.cap.client": {"core", "coreason_client.cap", "coreason_client._http"},
    "coreason_client.cap.aclient": {"core", "coreason_client.cap", "coreason_client._http"},
    "coreason_client.a2a": {  # and see LAZY_PACKAGES
        "core",
        "coreason_client.a2a._grpc",
        "coreason_client.a2a._v03",
    },
    "coreason_client.a2a._v03": {"core", "coreason_client.a2a"},
    "coreason_client.a2a._grpc": {"core", "coreason_client.a2a"},
    "coreason_client.a2a._transport_async": {
        "core",
        "coreason_client.a2a",
        "coreason_client.a2a._grpc",
        "coreason_client._http",
    },
    "coreason_client.a2a._transport_sync": {
        "core",
        "coreason_client.a2a",
        "coreason_client.a2a._grpc",
        "coreason_client._http",
    },
    "coreason_client.a2a.transport": {
        "coreason_client.a2a._transport_async",
        "coreason_client.a2a._transport_sync",
    },
    "coreason_client.a2a.client": {
        "core",
        "coreason_client.a2a",
        "coreason_client.a2a._transport_sync",
        "coreason_client._http",
    },
    "coreason_client.a2a.aclient": {
        "core",
        "coreason_client.a2a",
        "coreason_client.a2a._transport_async",
        "coreason_client._http",
    },
    "coreason_client.llm": {  # and see LAZY_PACKAGES
        "core",
        "coreason_client.llm.observe",
        "coreason_client.llm.providers",
    },
    "coreason_client.llm._session_sync": {"core", "coreason_client._http"},
    "coreason_client.llm.client": {
        "core",
        "coreason_client.llm",
        "coreason_client.llm._session_sync",
        "coreason_client.llm.observe",
    },
    "coreason_client.llm.observe": {"core", "coreason_client.llm"},
    "coreason_client.llm.functions": {
        "core",
        "coreason_client.llm",
        "coreason_client.llm._functions_sync",
    },
    "coreason_client.llm._functions_sync": {"coreason_client.llm", "coreason_client.llm.client"},
    "coreason_client.llm.providers": {"coreason_client.llm"},
    "coreason_client.server": {
        "server core",
        "coreason_client._lazy",
        "coreason_client.adapters",  # recognises the objects of frameworks
        "coreason_client.a2a",  # the card of an agent that is served over A2A
        "coreason_client.server.a2a",
        "coreason_client.server.ag_ui",
        "coreason_client.server.ai_sdk",
        "coreason_client.server.answer",
        "coreason_client.server.cap",
        "coreason_client.server.openai",
        "coreason_client.server.durable",
        "coreason_client.server.engine",
        "coreason_client.server.http",
        "coreason_client.server.log",
        "coreason_client.server.observe",
        "coreason_client.server.page",
        "coreason_client.server.process",
        "coreason_client.server.stream",
        "coreason_client.server.sync_stream",
    },
    "coreason_client.server.errors": {"server core"},
    "coreason_client.server._internals": {"server core"},
    "coreason_client.server._off_loop": {"server core"},
    "coreason_client.server._options": {"server core"},
    "coreason_client.server._outage": {"server core"},
    "coreason_client.server._names": set(),
    "coreason_client.server.parts": {"server core"},
    "coreason_client.server.stream": {
        "server core",
        "coreason_client.server.durable",
        "coreason_client.server.engine",
    },
    "coreason_client.server.sync_stream": {
        "server core",
        "coreason_client.server.durable",
        "coreason_client.server.stream",
    },
    "coreason_client.server.durable": {"server core"},
    "coreason_client.server.engine": {
        "server core",
        "coreason_client.server.durable",
        "coreason_client.server.log",
        "coreason_client.server.observe",
        "coreason_client.server.stream",
        "coreason_client.server.sync_stream",
    },
    "coreason_client.server.log": {"server core", "coreason_client._lazy"},
    "coreason_client.server.observe": {
        "server core",
        "coreason_client._context",
        "coreason_client.server.log",
    },
    "coreason_client.server.http": {
        "server core",
        "coreason_client._http._checks",
        "coreason_client.server.answer",
        "coreason_client.server.engine",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    "coreason_client.server.answer": {"server core"},
    "coreason_client.server.openai": {
        "server core",
        "coreason_client.server.answer",
        "coreason_client.server.engine",
        "coreason_client.server.http",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    "coreason_client.server.ag_ui": {
        "server core",
        "coreason_client.server.answer",
        "coreason_client.server.engine",
        "coreason_client.server.http",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    "coreason_client.server.ai_sdk": {
        "server core",
        "coreason_client.server.answer",
        "coreason_client.server.engine",
        "coreason_client.server.http",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    "coreason_client.server.cap": {
        "server core",
        "coreason_client.server.engine",
        "coreason_client.server.http",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    # Knows no agent and no protocol, so a proxy can serve it too.
    "coreason_client.server.page": {"server core", "coreason_client.server.http"},
    # Of the client's package only what has no I/O: types, dialects and errors.
    "coreason_client.server.a2a": {
        "server core",
        "coreason_client.a2a",
        "coreason_client.a2a._grpc",
        "coreason_client.a2a._v03",
        "coreason_client.server.answer",
        "coreason_client.server.engine",
        "coreason_client.server.http",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    "coreason_client.server.process": {
        "server core",
        "coreason_client.server",
        "coreason_client.server.log",
        "coreason_client.server.observe",
    },
    # Frameworks are imported by name, when an object of theirs is served.
    "coreason_client.adapters": {
        "coreason_manifest.definitions",
        "coreason_client.agents",  # the conversation as messages for a model
        "coreason_client.errors",
        "coreason_client.llm",
        "coreason_client.llm.providers",  # items and tokens of the Responses API
        "coreason_client.server",
        "coreason_client.server.engine",
    },
    "coreason_client.agents": {
        "coreason_manifest.definitions",
        "coreason_client.errors",
        "coreason_client.server",
        "coreason_client.server._names",  # the words of a question
        "coreason_client.llm",
    },
    # A server in front of an agent, so it has both: clients of an agent, and parts of the server.
    "coreason_client.inspector": {
        "core",
        "server core",
        "coreason_client._http",
        "coreason_client.a2a",
        "coreason_client.cap",
        "coreason_client.server",
        "coreason_client.server.cap",
        "coreason_client.server.http",
        "coreason_client.server.observe",
        "coreason_client.server.page",
        "coreason_client.server.process",
    },
    "coreason_client.cli": {
        "public",
        "coreason_client._host_port",
        "coreason_client._http._checks",
        "coreason_client.llm.providers",  # their names, for shell completion
        "coreason_client.server",
        "coreason_client.server.log",  # its backup
        "coreason_client.inspector",
        "coreason_client.adapters",
        "coreason_client.agents",
        "coreason_client.testing._chaos",  # the proxy of `coreason chat --chaos`
    },
    "coreason_client.__main__": {"coreason_client.errors", "coreason_client.cli"},
    # The users' testing kit may import everything; of it only the proxy is in another entry.
    "coreason_client.testing._chaos": {
        "coreason_client.errors",
        "coreason_client.testing._loopback",
    },
    "coreason_client.testing._loopback": set(),
    "coreason_client.testing": {"everything"},
}
GROUPS: dict[str, set[str]] = {
    "server core": {
        "coreason_manifest.definitions",
        "coreason_client.sse",
        "coreason_client.errors",
        "coreason_client._context",
        "coreason_client._fallback",
        "coreason_client._host_port",
        "coreason_client._ownership",
        "coreason_client._retry",
        "coreason_client._secret",
        "coreason_client._valkey_address",
        "coreason_client.server.errors",
        "coreason_client.server._internals",
        "coreason_client.server._off_loop",
        "coreason_client.server._options",
        "coreason_client.server._outage",
        "coreason_client.server._names",
        "coreason_client.server.parts",
    },
    "core": {
        "coreason_manifest.definitions",
        "coreason_client.errors",
        "coreason_client.sse",
        "coreason_client._retry",
        "coreason_client._connections",
        "coreason_client._clock",
        "coreason_client._context",
        "coreason_client._secret",
        "coreason_client._drive_async",
        "coreason_client._drive",
        "coreason_client._drive_sync",
        "coreason_client._fallback",
        "coreason_client._ownership",
        "coreason_client._host_port",
        "coreason_client._lazy",
        "coreason_client._valkey_address",
        "coreason_client._http._types",
        "coreason_client._http._checks",
        "coreason_client._http._redirect",
        "coreason_client._version",
    },
    "public": {
        "coreason_manifest.definitions",
        "coreason_client",
        "coreason_client._lazy",
        "coreason_client._secret",
        "coreason_client._version",
        "coreason_client.errors",
        "coreason_client.sse",
        "coreason_client.cap",
        "coreason_client.cap.client",
        "coreason_client.cap.aclient",
        "coreason_client.a2a",
        "coreason_client.a2a.client",
        "coreason_client.a2a.aclient",
        "coreason_client.a2a.transport",
        "coreason_client.llm",
    },
}
# Packages that import their submodules for type checkers, and otherwise on first use.
LAZY_PACKAGES = {
    "coreason_client",
    "coreason_client.a2a",
    "coreason_client.llm",
    "coreason_client.testing",
}
# Third-party libraries, and the only packages that may import them.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "httpx2": (
        "coreason_client._http",
        "coreason_client.testing",  # a transport that calls an application in the same loop
        # A client of the official MCP package, which takes one.
        "coreason_client.llm.tools._mcp_connection",
    ),
    "mcp": ("coreason_client.llm.tools._mcp_connection",),
    "httpcore2": (
        "coreason_client._http",
        # Webhooks need a connection to an address that was checked, and nothing of a client: no
        # proxies of the environment, no redirects, no cookies.
        "coreason_client.server.a2a._push._sender",
    ),
    "httpx": (),
    "httpx_sse": (),
    "httpx_aiohttp": (),
    "anyio": (
        "coreason_client._http",
        "coreason_client.a2a._oauth",
        "coreason_client.a2a.push_receiver",
        "coreason_client.server",
        "coreason_client.testing",
    ),
    "aiohttp": ("coreason_client.llm._session_async",),
    "yarl": ("coreason_client.llm._session_async",),
    "pydantic_settings": ("coreason_client.llm.settings",),
    "starlette": (
        "coreason_client.inspector",
        "coreason_client.server.a2a",
        "coreason_client.server.ag_ui",
        "coreason_client.server.ai_sdk",
        "coreason_client.server.app",
        "coreason_client.server.cap",
        "coreason_client.server.group",
        "coreason_client.server.openai",
        "coreason_client.server.http",
        "coreason_client.server.page",
        "coreason_client.server.process",
        "coreason_client.server.resumable",
    ),
    "jwt": ("coreason_client.a2a._card_keys",),
    "cryptography": ("coreason_client.a2a._card_keys",),
    "uvicorn": ("coreason_client.server", "coreason_client.cli"),
    "typer": ("coreason_client.cli",),
    "rich": ("coreason_client.cli",),
    "jsonschema": ("coreason_client.cli.llm._schema",),
    "referencing": ("coreason_client.cli.llm._schema",),
    "prompt_toolkit": ("coreason_client.cli.prompt._editor",),
    "redis": ("coreason_client.llm.router._valkey", "coreason_client.server.log.valkey"),
    "grpc": (
        "coreason_client.a2a._grpc",
        "coreason_client.server.a2a._grpc_server",
        "coreason_client.server.a2a._settings",  # a type
    ),
    "google": ("coreason_client.a2a._grpc",),
    "genai_prices": ("coreason_client.llm._cost",),
    "prometheus_client": ("coreason_client.server.observe._metrics",),
    "opentelemetry": (
        "coreason_client.llm.observe._instruments",
        "coreason_client.llm.observe.telemetry",  # types
        "coreason_client.server.observe._spans",
    ),
}

# Imported only to check whether an extra is installed.
MAY_CHECK_INSTALLED = {"coreason_client.server": {"starlette"}}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in SRC.rglob("*.py"):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """Return all modules that this one imports, at any place in the file."""
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return frozenset(_imports(ast.parse(path.read_text()), package))


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                full = f"{source}.{alias.name}"
                yield full if full in modules() else source


def package_of(module: str) -> str:
    return max((package for package in PACKAGES if _is_in(module, package)), key=len)


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def allowed(package: str) -> set[str]:
    names = PACKAGES[package] | {package}
    if "everything" in names:
        return set(PACKAGES)
    return names.union(*(GROUPS.get(name, set()) for name in names))


@each("module", modules())
def test_a_module_imports_only_what_its_package_may(module: str) -> None:
    package = package_of(module)
    wrong = {
        target
        for target in imports(module)
        if target in modules()
        and package_of(target) not in allowed(package)
        and not (module in LAZY_PACKAGES and _is_in(target, module))
    }
    assert not wrong, f"{module} ({package}) must not import {sorted(wrong)}"


@pytest.mark.proves("R04p")
@each("module", modules())
def test_a_library_is_imported_only_in_its_packages(module: str) -> None:
    for target in imports(module) - MAY_CHECK_INSTALLED.get(module, set()):
        packages = LIBRARIES.get(target.split(".")[0])
        assert packages is None or any(_is_in(module, package) for package in packages), (
            f"{module} must not import {target}"
        )


def test_there_is_no_import_cycle() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join((*path, module))
        if module in done or module not in modules():
            return
        for target in imports(module):
            if target not in LAZY_PACKAGES:
                visit(target, (*path, module))
        done.add(module)

    for module in modules():
        visit(module, ())


def test_the_import_parser_itself() -> None:
    tree = ast.parse("from ..sse import SSEDecoder\nfrom . import errors\nimport a.b")
    assert set(_imports(tree, "coreason_client.cap")) == {
        "coreason_client.sse",
        "coreason_client.cap.errors",
        "a.b",
    }
    assert package_of("coreason_client._http._types") == "coreason_client._http._types"
    assert package_of("coreason_client._http._sync") == "coreason_client._http"
    assert "coreason_client._http" not in allowed("coreason_client.cap")


def test_the_testing_kit_may_import_everything_and_is_imported_by_nobody() -> None:
    kit = "coreason_client.testing"
    assert allowed(kit) == set(PACKAGES)
    assert not [package for package in PACKAGES if package != kit and kit in allowed(package)]
