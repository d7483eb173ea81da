"""The answers of the peer, for tests that do not load the SDK themselves."""

from typing import Final

TENANT: Final = "acme"
ARTIFACT: Final = "answer"
PICTURE: Final = b"\x89PNG\r\n\x1a\n\x00\xff"
LINK: Final = "https://example.com/picture.png"
DATA: Final = {"colour": "blue", "sizes": [1.5, 2.5], "nested": {"none": None}}


def chunks(count: int) -> list[str]:
    """Return the pieces of text of a task of so many chunks."""
    return [f"w{number} " for number in range(1, count + 1)]
