"""Checks that this tree can be released; it needs nothing but Python.

    python scripts/check_release.py
    python scripts/check_release.py --tag v0.1.0 --dist dist --notes notes.md

Without a tag the changelog may begin with "Unreleased". With one, the tag must be that of the
version, and so must the first heading of the changelog. `--dist` checks the built files too, and
`--notes` writes the section of the changelog to a file, whose links are those of the tag.
"""

import argparse
import json
import os
import re
import sys
import tarfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.release_metadata import absolute_links

__all__ = ["main", "problems"]

ROOT = Path(__file__).resolve().parent.parent
CLASSIFIER = "Programming Language :: Python :: "
FILES = (
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "SECURITY.md",
    "js/LICENSE",
    "js/README.md",
    "requirements-dev.txt",
    "deploy/requirements.txt",
    "deploy/requirements-build.txt",
    "ROADMAP.md",
    "VERSIONING.md",
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".github/dependabot.yml",
    ".github/workflows/release.yml",
    ".github/workflows/test.yml",
)


def problems(root: Path, tag: str | None = None, dist: Path | None = None) -> list[str]:
    """Return a sentence for each thing that is missing or wrong."""
    version = _found(root / "src/coreason_client/_version.py", r'__version__ = "([^"]+)"')
    if version is None:
        return ["src/coreason_client/_version.py has no version"]
    return [
        *(f"{name} is missing" for name in FILES if not (root / name).is_file()),
        *_tag(version, tag),
        *_versions(root, version),
        *_changelog(root, version, tagged=tag is not None),
        *_pythons(root),
        *_actions(root),
        *(_dist(root, dist, version) if dist else ()),
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _found(path: Path, pattern: str) -> str | None:
    match = re.search(pattern, _text(path), re.MULTILINE)
    return match[1] if match else None


def _tag(version: str, tag: str | None) -> Iterator[str]:
    if tag not in {None, f"v{version}"}:
        yield f"the tag must be v{version}, as in _version.py, got {tag}"


def _versions(root: Path, version: str) -> Iterator[str]:
    package = json.loads(_text(root / "js/package.json") or "{}")
    cited = _found(root / "CITATION.cff", r"^version: [\"']?([^\"'\s]+)")
    for name, got in (("js/package.json", package.get("version")), ("CITATION.cff", cited)):
        if got != version and (root / name).is_file():
            yield f"{name} must have the version {version}, as in _version.py, got {got}"


def _changelog(root: Path, version: str, *, tagged: bool) -> Iterator[str]:
    heading = _found(root / "CHANGELOG.md", r"^## (.+)$") or "no heading"
    first = heading.split()[0].strip("[]")
    if first != version and (tagged or first != "Unreleased"):
        allowed = version if tagged else f"{version} or Unreleased"
        yield f"the first heading of CHANGELOG.md must be {allowed}, got {heading}"
    elif tagged and not _notes(root, version):
        yield f"the section {version} of CHANGELOG.md is empty"


def _notes(root: Path, version: str) -> str:
    """Return the section of the changelog about a version."""
    pattern = rf"^## \[?{re.escape(version)}\]?(?:\s.*)?\n((?:(?!## ).*\n?)*)"
    return (_found(root / "CHANGELOG.md", pattern) or "").strip()


def _pythons(root: Path) -> Iterator[str]:
    """The classifiers name the Pythons that the workflow tests, beginning with the lowest."""
    project = tomllib.loads(_text(root / "pyproject.toml"))["project"]
    named = {item.removeprefix(CLASSIFIER) for item in project["classifiers"] if "3." in item}
    matrix = _found(root / ".github/workflows/test.yml", r"^ +python: \[([^\]]+)\]") or ""
    tested = set(re.findall(r"3\.\d+", matrix))
    if named != tested:
        yield f"the classifiers name Python {_listed(named)}, but test.yml tests {_listed(tested)}"
    if _listed(named).split(", ")[0] != project["requires-python"].removeprefix(">="):
        yield f"requires-python is {project['requires-python']}, but not the lowest classifier"


def _listed(versions: set[str]) -> str:
    return ", ".join(sorted(versions, key=lambda version: [*map(int, version.split("."))]))


def _actions(root: Path) -> Iterator[str]:
    """A tag can be moved, a commit cannot; and one action has one commit in all workflows."""
    pins = defaultdict[str, set[str]](set)
    for path in sorted((root / ".github/workflows").glob("*.y*ml")):
        for name, rest in re.findall(r"\buses: +([^@\s]+)(.*)", _text(path)):
            if name.startswith("./"):
                continue
            pins[name].add(rest)
            if not re.fullmatch(r"@[0-9a-f]{40} # v\d+(\.\d+)*", rest):
                yield f"{path.name}: {name} must be pinned as @COMMIT # vVERSION, got {rest}"
    yield from (
        f"{name} is pinned to {len(got)} commits" for name, got in pins.items() if len(got) > 1
    )


def _dist(root: Path, dist: Path, version: str) -> Iterator[str]:
    """Exactly what is published, and complete: nothing else may be uploaded with it."""
    npm = json.loads(_text(root / "js/package.json"))["name"].lstrip("@").replace("/", "-")
    wanted = {
        f"coreason_client-{version}-py3-none-any.whl",
        f"coreason_client-{version}.tar.gz",
        f"{npm}-{version}.tgz",
        f"coreason-client-{version}.cdx.json",
    }
    found = {path.name for path in dist.glob("*")}
    yield from (f"{dist} lacks {name}" for name in sorted(wanted - found))
    listed = json.loads(_text(dist / f"coreason-client-{version}.cdx.json") or "{}")
    if listed.get("metadata", {}).get("component", {}).get("version") != version:
        yield f"the list of components is not that of {version}"
    yield from (f"{dist} has {name}, which is not published" for name in sorted(found - wanted))
    for name, folder in (
        (f"coreason_client-{version}-py3-none-any.whl", f"coreason_client-{version}.dist-info"),
        (f"coreason_client-{version}.tar.gz", f"coreason_client-{version}"),
        (f"{npm}-{version}.tgz", "package"),
    ):
        if name in found:
            yield from (f"{name} {lack}" for lack in _lacks(_content(dist / name), folder, version))


def _content(path: Path) -> dict[str, bytes]:
    """Return the files at the top of a package, where its licence and description are."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" in name}
    with tarfile.open(path) as archive:
        top = [item for item in archive if item.isfile() and item.name.count("/") == 1]
        return {item.name: file.read() for item in top if (file := archive.extractfile(item))}


def _lacks(content: dict[str, bytes], folder: str, version: str) -> Iterator[str]:
    """What a registry shows: the licence, the version, and links that lead somewhere."""
    if not {f"{folder}/LICENSE", f"{folder}/licenses/LICENSE"} & content.keys():
        yield "has no LICENSE"
    if f"{folder}/package.json" in content:
        package = json.loads(content[f"{folder}/package.json"])
        if package["version"] != version:
            yield f"has the version {package['version']}"
        if "repository" not in package:
            yield "does not say where its source is: set GITHUB_REPOSITORY"
        return
    described = (content.get(f"{folder}/{name}") for name in ("METADATA", "PKG-INFO"))
    text = next(filter(None, described), b"").decode()
    if f"\nVersion: {version}\n" not in text:
        yield f"does not have the version {version}"
    if "\nProject-URL: Repository, " not in text or re.search(r"\]\((?!#|[a-z]+:)", text):
        yield "does not say where its source is, or has relative links: set GITHUB_REPOSITORY"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the problems; return the exit code."""
    parser = argparse.ArgumentParser(description="Check that this tree can be released.")
    parser.add_argument("--tag", help="the tag of the release, such as v0.1.0")
    parser.add_argument("--dist", type=Path, help="the folder with the built files")
    parser.add_argument("--notes", type=Path, help="write the section of the changelog here")
    options = parser.parse_args(arguments)
    found = problems(root, options.tag, options.dist)
    for problem in found:
        print(problem, file=sys.stderr)  # noqa: T201
    if options.notes and options.tag and not found:
        version = options.tag.removeprefix("v")
        text = _notes(root, version)
        if repository := os.environ.get("GITHUB_REPOSITORY"):
            text = absolute_links(text, repository, version)
        options.notes.write_text(f"{text}\n", "utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
