"""Packages that import their names when they are first used."""

import subprocess
import sys
from types import ModuleType

import pytest

from coreason_client._lazy import lazy

PACKAGE = "lazy_package_of_a_test"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of one module, which is in `sys.modules` as if it had been imported."""
    package, module = ModuleType(PACKAGE), ModuleType(f"{PACKAGE}.home")
    module.thing = object()  # type: ignore[attr-defined] # made here
    monkeypatch.setitem(sys.modules, PACKAGE, package)
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.home", module)
    return package


def test_a_name_is_taken_from_its_module_and_kept(package: ModuleType) -> None:
    get, _ = lazy(PACKAGE, {"thing": ".home"}, ["thing"])
    home = sys.modules[f"{PACKAGE}.home"]
    assert "thing" not in vars(package)
    assert get("thing") is home.thing
    assert vars(package)["thing"] is home.thing  # so Python does not ask again


def test_a_module_that_cannot_be_imported_is_asked_for_only_when_it_is_used(
    package: ModuleType,
) -> None:
    get, names = lazy(PACKAGE, {"other": ".not_there", "thing": ".home"}, ["other", "thing"])
    assert names() == ["other", "thing"]
    get("thing")
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        get("other")


def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    get, _ = lazy(PACKAGE, {"thing": ".home"}, ["thing"])
    with pytest.raises(AttributeError) as caught:
        get("nothing")
    assert str(caught.value) == f"module '{PACKAGE}' has no attribute 'nothing'"
    assert not hasattr(package, "nothing")


def test_a_list_of_names_can_be_changed_without_harm(package: ModuleType) -> None:
    _, names = lazy(PACKAGE, {}, ("a", "b"))
    names().clear()
    assert names() == ["a", "b"]


def test_the_sync_client_is_imported_without_modules_that_it_needs_later_or_never() -> None:
    heavy = "{'asyncio', 'anyio', 'h11', 'httpcore2', 'aiohttp', 'starlette', 'typer'}"
    program = (
        "import sys\nfrom coreason_client import CAPClient\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
