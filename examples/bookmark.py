"""Stop reading an answer, and go on in another process, or on another machine.

    coreason serve --store sqlite:streams.db &
    python examples/bookmark.py http://127.0.0.1:8000 "What is a bookmark?" --pieces 3
    python examples/bookmark.py http://127.0.0.1:8000

The first command reads three pieces of the answer and saves its place in `bookmark.json`. The
second one reads the rest. Together they print each word once.
"""

import argparse
import os
from itertools import islice
from pathlib import Path

from coreason_client import Bookmark, CAPClient


def main() -> None:
    parser = argparse.ArgumentParser(description="Read an answer in several processes.")
    parser.add_argument("url")
    parser.add_argument("question", nargs="?", help="without it, the saved answer goes on")
    parser.add_argument("--pieces", type=int, help="stop after so many pieces")
    parser.add_argument("--file", type=Path, default=Path("bookmark.json"))
    options = parser.parse_args()
    with CAPClient(options.url, os.environ.get("COREASON_API_KEY", "any-key")) as client:
        if options.question:
            stream = client.chat(options.question)
        else:
            stream = client.resume_chat(Bookmark.model_validate_json(options.file.read_text()))
        with stream:
            for text in islice(stream, options.pieces):
                print(text, end="", flush=True)
        options.file.write_text(stream.bookmark().to_json())


if __name__ == "__main__":
    main()
