"""Every package has tests of its rules, in the folder of the same path or in the one listed here.

A test goes through the narrowest stable interface, which is that of a package: modules may be
joined and divided without a change of the tests.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "coreason_client"

# Packages, relative to `SOURCE`, whose tests are in another folder.
TESTED_IN = {
    "a2a/_v03": "a2a",
    "cli/a2a": "cli",
    "cli/chat": "cli",
    "cli/llm": "cli",
    "cli/output": "cli",
    "cli/prompt": "cli",
    "cli/serve": "cli",
    "server/a2a/_push": "server/a2a",
    "server/a2a/_v03": "server/a2a",
    "server/log/postgres": "server/log",
    "server/log/remote": "server/log",
    "server/log/valkey": "server/log",
    "testing/_models": "testing",
    "testing/_recording": "testing",
    "testing/contracts": "testing",
    "testing/faults": "faults",
}


def folder(package: str, tested_in: Mapping[str, str]) -> str:
    """Return the folder with the tests of a package."""
    return tested_in.get(package) or "/".join(part.lstrip("_") for part in package.split("/"))


def problems(
    packages: Collection[str], folders: Collection[str], tested_in: Mapping[str, str]
) -> list[str]:
    """Return a message for each package without tests, and for each entry that is not needed."""
    return [
        *(
            f"{package} has no tests in tests/{wanted}: add some, or list its folder in TESTED_IN"
            for package in packages
            if (wanted := folder(package, tested_in)) not in folders
        ),
        *(
            f"{package} is listed in TESTED_IN, but {why}: remove the entry"
            for package in tested_in
            for why in [_why_not_needed(package, packages, folders)]
            if why
        ),
    ]


def _why_not_needed(package: str, packages: Collection[str], folders: Collection[str]) -> str:
    if package not in packages:
        return "there is no such package"
    return "it has a folder of its path" if folder(package, {}) in folders else ""


def all_packages() -> list[str]:
    found = {file.parent.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py")}
    return sorted(found - {"."})


def test_every_package_has_tests() -> None:
    folders = {file.parent.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}
    assert not (found := problems(all_packages(), folders, TESTED_IN)), "\n" + "\n".join(found)


def test_the_folder_has_the_path_of_the_package_without_underscores() -> None:
    assert problems(["a2a/_grpc"], ["a2a/grpc"], {}) == []
    assert problems(["cli/llm"], ["cli"], {"cli/llm": "cli"}) == []
    [message] = problems(["cap"], ["cli"], {})
    assert message.startswith("cap has no tests in tests/cap: ")


def test_an_entry_that_is_not_needed_is_a_problem() -> None:
    listed = {"gone": "cli", "cap": "cli"}
    assert [line.split(":")[0] for line in problems(["cap"], ["cap", "cli"], listed)] == [
        "gone is listed in TESTED_IN, but there is no such package",
        "cap is listed in TESTED_IN, but it has a folder of its path",
    ]
