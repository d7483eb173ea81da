"""The `curl` command that `coreason serve` prints."""

import json
import shlex

import pytest

from coreason_client.cli.serve._serving import curl_line
from coreason_manifest.definitions.service import ServiceRequest

JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("authorization", "headers"),
    [(None, [JSON]), ("'Authorization: Bearer a b'", [JSON, "Authorization: Bearer a b"])],
)
def test_a_shell_reads_the_url_the_headers_and_the_body(
    authorization: str | None, headers: list[str]
) -> None:
    program, *words = shlex.split(curl_line("http://127.0.0.1:1", authorization))
    assert (program, words[:2]) == ("curl", ["-N", "http://127.0.0.1:1/assist"])
    options = list(zip(words[2::2], words[3::2], strict=True))
    assert [value for name, value in options if name == "-H"] == headers
    assert options[-1][0] == "-d"


def test_the_body_is_a_valid_request_without_an_id() -> None:
    body = shlex.split(curl_line("http://127.0.0.1:1"))[-1]
    request = ServiceRequest.model_validate_json(body)
    assert request.payload.messages
    assert "request_id" not in json.loads(body)


def test_the_url_is_quoted() -> None:
    assert shlex.split(curl_line("http://[::1]:80/a b"))[2] == "http://[::1]:80/a b/assist"


def test_a_quote_in_a_header_reaches_the_command_unchanged() -> None:
    line = curl_line("http://127.0.0.1:1", '"Authorization: Bearer $KEY"')
    assert '-H "Authorization: Bearer $KEY" -d' in line
