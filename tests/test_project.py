"""The promises of the distribution: its dependencies, its two packages, its documents."""

import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "VERSIONING.md",
    "ROADMAP.md",
    "CODE_OF_CONDUCT.md",
    "LICENSE",
    "docs/decisions.md",
    "docs/sse_wire_protocol.md",
    "docs/interface_contracts.md",
]


def names(requirements: list[str]) -> set[str]:
    return {requirement.split(">")[0].split("[")[0] for requirement in requirements}


@pytest.mark.proves("R19a", "A2A-own-parser")
def test_the_dependencies_are_the_chosen_ones() -> None:
    project = PYPROJECT["project"]
    assert names(project["dependencies"]) == {"pydantic", "httpx2"}
    assert {extra: names(found) for extra, found in project["optional-dependencies"].items()} == {
        "llm": {"aiohttp", "genai-prices", "pydantic-settings"},
        "mcp": {"mcp"},
        "server": {"starlette", "uvicorn"},
        "cli": {"typer", "rich", "prompt-toolkit", "jsonschema"},
        "valkey": {"redis"},
        "postgres": {"asyncpg"},
        "metrics": {"prometheus-client"},
        "otel": {"opentelemetry-api"},
        "signatures": {"pyjwt"},
        "grpc": {"grpcio", "protobuf"},
        "socks": {"httpx2"},
        "fast": {"uvloop", "httptools", "hiredis"},
        "all": {"coreason-client"},
    }
    extras = set(project["optional-dependencies"]) - {"all"}
    [everything] = project["optional-dependencies"]["all"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == extras


@pytest.mark.parametrize(
    ("platform", "implementation", "expected"),
    [
        ("linux", "CPython", {"uvloop", "httptools", "hiredis"}),
        ("darwin", "CPython", {"uvloop", "httptools", "hiredis"}),
        ("win32", "CPython", {"httptools", "hiredis"}),
        ("linux", "PyPy", set()),
    ],
)
def test_the_fast_extra_names_only_packages_with_wheels(
    platform: str, implementation: str, expected: set[str]
) -> None:
    environment = {"sys_platform": platform, "platform_python_implementation": implementation}
    requirements = map(Requirement, PYPROJECT["project"]["optional-dependencies"]["fast"])
    assert {
        requirement.name
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate(environment)
    } == expected


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_there_and_says_something(path: str) -> None:
    assert len((ROOT / path).read_text().split()) > 50


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.proves("R19b")
def test_the_other_package_has_no_init_of_its_own() -> None:
    assert not (ROOT / "src" / "coreason_manifest" / "__init__.py").exists()
    assert (ROOT / "src" / "coreason_manifest" / "definitions" / "py.typed").exists()
    assert (ROOT / "src" / "coreason_client" / "py.typed").exists()


def test_no_word_of_a_workplace_is_in_the_files() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    words = [f"/{'work'}/", f"{'sub'}agent"]
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml"} and path.exists():
            text = path.read_text()
            assert not [word for word in words if word in text], name
