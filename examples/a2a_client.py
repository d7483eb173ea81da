"""Talk to any A2A agent, and answer the questions that it asks.

    python examples/a2a_agent.py
    python examples/a2a_client.py http://127.0.0.1:8000 "Plan a trip to Kyoto." 2

The first text begins a task. If the agent requires input, the next one is the answer.
"""

import argparse
from typing import Any

from coreason_client import A2AClient, TaskState


def main() -> None:
    parser = argparse.ArgumentParser(description="Talk to an A2A agent.")
    parser.add_argument("url")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args()
    replying: dict[str, Any] = {}
    with A2AClient.connect(options.url) as agent:
        for text in options.text:
            print(f"> {text}")
            stream = agent.send_message_stream(text, **replying)
            for event in stream:
                print(event.text, end="", flush=True)
            print()
            task = stream.task
            if task is None:  # the agent answered with a message
                continue
            if task.status.state is TaskState.INPUT_REQUIRED:
                print(task.status.text)
            for artifact in task.artifacts or []:
                print(f"[{artifact.name}]")
            replying = {"reply_to": task}


if __name__ == "__main__":
    main()
