"""Completes the metadata of a build with links to where it is published; Hatchling calls it.

The source does not know its repository: a workflow of GitHub says it in `GITHUB_REPOSITORY`, and
whoever sets it too builds the same files. Without it the links of the README stay relative.
"""

import os
import re
from pathlib import Path
from typing import Any

__all__ = ["absolute_links", "get_metadata_hook", "urls"]

GITHUB = "https://github.com"
RAW = "https://raw.githubusercontent.com"


def urls(repository: str, version: str) -> dict[str, str]:
    """Return the links beside the description on PyPI."""
    owner, name = repository.split("/")
    home = f"{GITHUB}/{repository}"
    return {
        "Documentation": f"https://{owner.lower()}.github.io/{name}/",
        "Repository": home,
        "Changelog": f"{home}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }


def absolute_links(text: str, repository: str, version: str) -> str:
    """Return a document whose links and pictures are those of the tag, to be read anywhere."""
    link, picture = f"{GITHUB}/{repository}/blob/v{version}/", f"{RAW}/{repository}/v{version}/"
    return re.sub(
        r"(!?)(\[[^]]*\]\()(?!#|[a-z]+:)",
        lambda found: found[0] + (picture if found[1] else link),
        text,
    )


def get_metadata_hook() -> type[Any]:
    """Return the hook, by the name that Hatchling looks for; the links need no Hatchling."""
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class ReleaseMetadata(MetadataHookInterface):
        """Fills in what `pyproject.toml` calls dynamic."""

        def update(self, metadata: dict[str, Any]) -> None:
            """Add the README and the links, unless a source distribution has them already."""
            if "readme" in metadata:
                return
            text = Path(self.root, "README.md").read_text(encoding="utf-8")
            metadata["urls"] = {}
            if repository := os.environ.get("GITHUB_REPOSITORY"):
                text = absolute_links(text, repository, metadata["version"])
                metadata["urls"] = urls(repository, metadata["version"])
            metadata["readme"] = {"content-type": "text/markdown", "text": text}

    return ReleaseMetadata
