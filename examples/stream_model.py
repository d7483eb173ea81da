"""Stream the answer of a model; if it fails, ask another one. Show who answered, and the cost.

    LLM_API_KEY=… python examples/stream_model.py "Why is the sky blue?" gpt-4o gpt-4o-mini

A name such as `anthropic/claude-sonnet-4-5` chooses another provider, whose key is then read from
its usual variable (`ANTHROPIC_API_KEY`).
"""

import argparse
import sys

from coreason_client import LLMClient, LLMError


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a model.")
    parser.add_argument("question")
    parser.add_argument("model", nargs="+", help="the model, and those to ask if it fails")
    options = parser.parse_args()
    messages = [{"role": "user", "content": options.question}]
    first, *others = options.model
    try:
        with (
            LLMClient.from_env(max_retries=1) as client,
            client.stream(messages, first, fallbacks=others) as stream,
        ):
            for text in stream.text():
                print(text, end="", flush=True)
            response = stream.result()
    except LLMError as error:
        sys.exit(f"\n{type(error).__name__}: {error}")
    cost = response["usage"]["cost_estimate"]
    shown = "unknown" if cost is None else f"${cost:.6f}"
    print(f"\n({response['model']}, {response['usage']['total_tokens']} tokens, cost {shown})")


if __name__ == "__main__":
    main()
