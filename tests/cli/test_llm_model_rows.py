"""Models of a provider as rows."""

from typing import Any

import pytest

from coreason_client.cli.llm._models import model_row

FULL = {"id": "m-1", "name": "M One", "context_window": 200_000, "max_output_tokens": 8_000}


@pytest.mark.parametrize(
    ("model", "provider", "for_people", "row"),
    [
        (FULL, None, False, ("m-1", "200000", "8000", "M One")),
        (FULL, "anthropic", False, ("anthropic/m-1", "200000", "8000", "M One")),
        (FULL, "anthropic", True, ("anthropic/m-1", "200,000 tokens", "M One", "")),
        ({"id": "m-1"}, None, False, ("m-1", "", "", "")),
        ({"id": "m-1"}, None, True, ("m-1", "", "", "")),
        ({"id": "m-1", "name": "m-1"}, None, True, ("m-1", "", "", "")),
    ],
)
def test_the_first_text_is_what_the_option_takes(
    model: dict[str, Any], provider: str | None, for_people: bool, row: tuple[str, ...]
) -> None:
    assert model_row(model, provider, for_people=for_people) == row
