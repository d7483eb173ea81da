"""Compares the public API with that of the last release, for `make apidiff`.

The public API is what the reference of that release describes. Each breaking change is printed. The
exit code is 1 if there is one that the version does not allow: a new major version may break the
API, and before 1.0 a new minor version too.
"""

import re
import subprocess
import sys
from pathlib import Path

import griffe

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
COLOURS = re.compile(r"\x1b\[\d*m")


def _git(root: Path, *arguments: str) -> list[str]:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.splitlines()


def _last_tag(root: Path) -> str | None:
    """Return the newest version before this commit: not the one of this commit itself."""
    where = ("--merged", "HEAD", "--no-contains", "HEAD")
    return next(iter(_git(root, "tag", "--list", "v*", *where, "--sort=-version:refname")), None)


def _allows_breaks(old: str, new: str) -> bool:
    before, after = (tuple(map(int, version.split(".")[:2])) for version in (old, new))
    return after > before if before[0] == 0 else after[0] > before[0]


def _api(names: list[str], loaded: griffe.ModulesCollection) -> griffe.Module:
    """Return a module with the public names that there are, wherever they are defined."""
    found = griffe.Module("api")
    for name in names:
        try:
            member = loaded.get_member(name)
            target = member.final_target if member.is_alias else member
        except (KeyError, griffe.AliasResolutionError):  # also a name that is imported from nowhere
            continue
        target.public = True
        found.members[name] = target
    return found


def _breaks(root: Path, tag: str) -> list[str]:
    lines = _git(root, "grep", "-h", "^::: ", tag, "--", "docs/reference")
    names = [line.removeprefix("::: ") for line in lines]
    old, new = griffe.ModulesCollection(), griffe.ModulesCollection()
    for package in sorted({name.partition(".")[0] for name in names}):
        griffe.load_git(
            package,
            ref=tag,
            repo=root,
            search_paths=["src"],
            modules_collection=old,
            allow_inspection=False,
        )
        griffe.load(
            package,
            search_paths=[root / "src"],
            modules_collection=new,
            allow_inspection=False,
        )
    found = griffe.find_breaking_changes(_api(names, old), _api(names, new))
    return sorted({COLOURS.sub("", change.explain()) for change in found})


def main(root: Path = ROOT) -> int:
    """Print the breaking changes; return the exit code."""
    tag = _last_tag(root)
    if tag is None:
        print("There is no tag of a release before this commit to compare with.")  # noqa: T201
        return 0
    breaks = _breaks(root, tag)
    for line in breaks:
        print(line)  # noqa: T201
    [version] = re.findall(r'"(\d.*)"', (root / "src/coreason_client/_version.py").read_text())
    allowed = not breaks or _allows_breaks(tag.removeprefix("v"), version)
    verdict = "allows" if allowed else "does not allow"
    print(f"{len(breaks)} breaking changes since {tag}: version {version} {verdict} them.")  # noqa: T201
    return 0 if allowed else 1


if __name__ == "__main__":
    sys.exit(main())
