"""Get data from a model instead of text: a checked object of your own class.

    LLM_API_KEY=… python examples/structured_output.py "Two nights in Riga for three, 3 May 2027"

The model gets the JSON schema of the class. An answer that does not fit is sent back to it once.
"""

import argparse
from datetime import date

from pydantic import BaseModel, Field

from coreason_client import generate_sync


class Stay(BaseModel):
    """A stay that a guest asks for."""

    city: str
    arrival: date
    nights: int = Field(ge=1)
    guests: int = Field(ge=1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Turn a sentence into a booking.")
    parser.add_argument("sentence")
    messages = [{"role": "user", "content": parser.parse_args().sentence}]
    response = generate_sync(messages, response_format=Stay)
    stay = response["data"]["parsed"]  # a Stay, also for type checkers
    print(f"{stay.city}, {stay.arrival:%d.%m.%Y}: {stay.nights} nights, {stay.guests} guests")


if __name__ == "__main__":
    main()
