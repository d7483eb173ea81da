"""What the workflows promise: who may publish, what runs before, and what is attested."""

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
Jobs = dict[str, Any]
BUILD = (
    'check_release.py --tag "$GITHUB_REF_NAME"',
    "make apidiff",
    "make release-files",
    '--tag "$GITHUB_REF_NAME" --dist dist --notes notes.md',
    "make docs",
)


def jobs(name: str) -> Jobs:
    found: Jobs = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8"))["jobs"]
    return found


def action(job: Any, name: str) -> Any:
    """Return the options of the first step with an action, None if there is none."""
    for step in job.get("steps", []):
        if step.get("uses", "").startswith(f"{name}@"):
            return dict(step.get("with", {}))
    return None


def commands(job: Any) -> str:
    return "".join(f"{step.get('run', '')}\n" for step in job.get("steps", []))


def unsafe(name: str, job: Any) -> Iterator[str]:
    """Yield what is wrong with a job that publishes to a registry."""
    if set(job["needs"]) != {"test", "build"}:
        yield f"{name} publishes what was not tested"
    if job["permissions"] != {"id-token": "write"} or "secrets." in str(job):
        yield f"{name} does not use trusted publishing alone"
    if job.get("environment", {}).get("name") != name:
        yield f"nobody has to approve {name}"
    if action(job, "actions/checkout") is not None or "install" in commands(job):
        yield f"{name} runs other code"


def unchecked(build: Any) -> Iterator[str]:
    """Yield what the job lacks that builds the files."""
    if build["permissions"] != {"contents": "read"} or build["env"] != {"LOCKED": 1}:
        yield "the build has rights, or tools that are not locked"
    yield from (f"the build lacks {one}" for one in BUILD if f"{one}\n" not in commands(build))


def unattested(jobs: Jobs) -> Iterator[str]:
    """Yield what nobody could check after the release."""
    publish = action(jobs["pypi"], "pypa/gh-action-pypi-publish")
    if publish is None or publish.get("attestations", True) is not True:
        yield "files on PyPI are not attested"
    if "npm publish --provenance " not in commands(jobs["npm"]):
        yield "the npm package is not attested"
    if action(jobs["github"], "actions/attest") != {"subject-path": "dist/*"}:
        yield "the files of the release are not attested"
    if not {"pypi", "npm"} <= set(jobs["github"]["needs"]):
        yield "the release is announced before it is published"


def weaknesses(jobs: Jobs) -> list[str]:
    """Return what a release lacks."""
    published = [found for name in ("pypi", "npm") for found in unsafe(name, jobs[name])]
    return [*published, *unchecked(jobs["build"]), *unattested(jobs)]


def changed(change: Callable[[Jobs], object]) -> list[str]:
    other = copy.deepcopy(jobs("release"))
    change(other)
    return weaknesses(other)


def test_a_release_is_tested_approved_and_attested() -> None:
    release = jobs("release")
    assert weaknesses(release) == []
    assert release["test"]["uses"] == "./.github/workflows/test.yml"
    rights = {name for name, job in release.items() if "id-token" in job["permissions"]}
    assert rights == {"pypi", "npm", "github", "site"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda jobs: jobs["pypi"]["needs"].remove("test"), "pypi publishes what was not tested"),
        (lambda jobs: jobs["npm"].pop("environment"), "nobody has to approve npm"),
        (
            lambda jobs: jobs["npm"]["steps"].append({"run": "x ${{ secrets.NPM }}"}),
            "npm does not use trusted publishing alone",
        ),
        (
            lambda jobs: jobs["pypi"]["steps"].insert(0, {"uses": "actions/checkout@1"}),
            "pypi runs other code",
        ),
        (
            lambda jobs: jobs["pypi"]["steps"][-1].update({"with": {"attestations": False}}),
            "files on PyPI are not attested",
        ),
        (
            lambda jobs: jobs["npm"]["steps"][-1].update(run="npm publish ./dist/*.tgz"),
            "the npm package is not attested",
        ),
        (
            lambda jobs: jobs["github"]["steps"].pop(2),
            "the files of the release are not attested",
        ),
        (
            lambda jobs: jobs["github"]["needs"].remove("npm"),
            "the release is announced before it is published",
        ),
        (
            lambda jobs: jobs["build"]["permissions"].update(contents="write"),
            "the build has rights, or tools that are not locked",
        ),
        (lambda jobs: jobs["build"]["steps"].pop(4), "the build lacks make apidiff"),
    ],
)
def test_a_weaker_release_is_noticed(change: Callable[[Jobs], object], found: str) -> None:
    assert changed(change) == [found]


def artifacts(jobs: Jobs) -> dict[str, list[str]]:
    """Return the paths of each artifact."""
    steps = [step for job in jobs.values() for step in job.get("steps", [])]
    uploads = [step["with"] for step in steps if "upload-artifact@" in step.get("uses", "")]
    return {upload["name"]: upload["path"].split() for upload in uploads}


def test_every_file_is_at_the_top_of_its_artifact() -> None:
    """Files of two folders would keep them, and a release cannot have a folder."""
    release = jobs("release")
    uploaded = artifacts(release)
    folders = {name: {PurePosixPath(path).parent for path in uploaded[name]} for name in uploaded}
    assert [name for name, parents in folders.items() if len(parents) != 1] == []
    downloaded = re.findall(
        r"\w+", action(release["github"], "actions/download-artifact")["pattern"]
    )
    assert {*downloaded, "notes"} == uploaded.keys()
    published = {path for name in downloaded for path in uploaded[name]}
    assert published == {"dist/*.whl", "dist/*.tar.gz", "dist/*.tgz", "dist/*.cdx.json"}


def test_the_tests_run_on_every_system_and_python_that_is_promised() -> None:
    """`check_release.py` compares the Pythons with those of pyproject.toml."""
    tests = jobs("test")
    assert "windows" in str(tests["portable"]["strategy"]["matrix"]["os"])
    assert "macos" in str(tests["portable"]["strategy"]["matrix"]["os"])
    for name in ("linux", "newest"):
        assert ".ci/run" in commands(tests[name])
    assert "make apidiff" in commands(tests["linux"])
    assert "make platforms" in commands(tests["linux"])
    assert "make lowest" in commands(tests["lowest"])
    assert "env" not in tests["newest"]  # without the lock file
