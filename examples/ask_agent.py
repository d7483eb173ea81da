"""Ask an agent, print its answer as it arrives, and ask again in the same conversation.

    coreason serve &
    python examples/ask_agent.py http://127.0.0.1:8000 "What is CAP?" "And in a browser?"

A lost connection is resumed. If that is impossible, the error says how much was received.
"""

import argparse
import os
import sys

from coreason_client import CAPClient, CAPError


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask an agent.")
    parser.add_argument("url")
    parser.add_argument("question", nargs="+")
    options = parser.parse_args()
    conversation = None
    with CAPClient(options.url, os.environ.get("COREASON_API_KEY", "any-key")) as client:
        for question in options.question:
            stream = client.chat(question, conversation)
            try:
                for text in stream:
                    print(text, end="", flush=True)
            except CAPError as error:
                sys.exit(f"\n{type(error).__name__}: {error}")
            print(f"\n(events: {len(stream.events)}, reconnections: {stream.reconnects})")
            conversation = stream.conversation_id


if __name__ == "__main__":
    main()
