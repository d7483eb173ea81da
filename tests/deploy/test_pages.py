"""The how-to pages show the files of `deploy` as they are, and only commands that exist."""

from pathlib import Path

import pytest

from tests.cli.test_documented import commands
from tests.cli.test_documented import parse as parse_command
from tests.docs.blocks import parse

ROOT = Path(__file__).parents[2]
SHOWN = {
    "docker": ["Dockerfile", "compose.yaml"],
    "kubernetes": ["kubernetes.yaml"],
    "nginx": ["nginx.conf"],
    "systemd": ["coreason.service"],
}
PAGES = [*SHOWN, "key-rotation", "tls"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_files_and_commands_that_exist(page: str) -> None:
    path = ROOT / "docs" / "howto" / f"{page}.md"
    blocks = parse(path.read_text(), page)
    shown = {block.title: block.code for block in blocks if block.title}
    for name in SHOWN.get(page, []):
        assert shown[name] == (ROOT / "deploy" / name).read_text()
    for block in blocks:
        if block.language == "sh":
            lines = block.code.replace("\\\n", " ").splitlines()
            for line in lines:
                if line.startswith(("coreason ", "SSL_CERT_FILE=")):
                    [arguments] = commands(line)
                    parse_command(arguments)
