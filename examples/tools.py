"""A model that calls functions of this program, and shows each call.

    LLM_API_KEY=… python examples/tools.py "How long is the flight from Lima to Riga?"

`LLM_API_BASE_URL` and `DEFAULT_MODEL` choose another provider and another model.
"""

import argparse
import math

from coreason_client.llm import (
    RunFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    run_stream_sync,
)

PLACES = {"Lima": (-12.05, -77.04), "Nairobi": (-1.29, 36.82), "Riga": (56.95, 24.11)}


def distance(start: str, end: str) -> float:
    """Return the distance between two cities in kilometres.

    Args:
        start: Lima, Nairobi or Riga.
        end: Lima, Nairobi or Riga.
    """
    (north, east), (other_north, other_east) = PLACES[start], PLACES[end]
    a, b = math.radians(north), math.radians(other_north)
    turned = math.radians(other_east - east)
    angle = math.acos(math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(turned))
    return round(6371 * angle)


def flight_hours(kilometres: float) -> float:
    """Return the duration of a flight in hours."""
    return round(kilometres / 850 + 0.5, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a model that can call functions.")
    parser.add_argument("question")
    messages = [{"role": "user", "content": parser.parse_args().question}]
    with run_stream_sync(messages, tools=[distance, flight_hours], max_turns=6) as events:
        for event in events:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case ToolCallStarted(name=name, arguments=arguments):
                    print(f"{name} {arguments}")
                case ToolCallFinished(name=name, result=result):
                    print(f"{name} -> {result}")
                case RunFinished(result=result):
                    print(f"\n({result.turns} answers, {result.usage['total_tokens']} tokens)")


if __name__ == "__main__":
    main()
