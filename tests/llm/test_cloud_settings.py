"""Keys and base URLs from the variables of AWS, Google Cloud and Azure."""

from typing import Any

import pytest

from coreason_client.llm import AWSCredentials
from coreason_client.llm.settings import cloud_base_urls, cloud_keys

AWS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret-key"}


@pytest.mark.parametrize(
    ("values", "keys", "expected"),
    [
        ({}, {}, {}),
        (AWS, {"openai": "k"}, {"openai": "k", "bedrock": AWSCredentials("AKID", "secret-key")}),
        (AWS, {"bedrock": "bearer"}, {"bedrock": "bearer"}),
        (
            {**AWS, "AWS_SESSION_TOKEN": "token", "AWS_DEFAULT_REGION": "eu-west-1"},
            {},
            {"bedrock": AWSCredentials("AKID", "secret-key", "token", "eu-west-1")},
        ),
        ({"AWS_ACCESS_KEY_ID": "AKID"}, {}, {}),
        ({"AWS_SECRET_ACCESS_KEY": "secret-key"}, {}, {}),
        ({**AWS, "AWS_SESSION_TOKEN": "not sendable"}, {}, {}),
    ],
)
def test_the_keys(values: dict[str, str], keys: dict[str, str], expected: Any) -> None:
    assert cloud_keys(values, keys) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {}),
        (
            {"AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "eu-west-1"},
            {"bedrock": "https://bedrock-runtime.us-west-2.amazonaws.com"},
        ),
        (
            {"AWS_DEFAULT_REGION": "cn-north-1"},
            {"bedrock": "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"},
        ),
        ({"AWS_REGION": "evil.example/"}, {}),
        (
            {"GOOGLE_CLOUD_PROJECT": "p-1"},
            {"vertex": "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global"},
        ),
        (
            {"GOOGLE_CLOUD_PROJECT": "example.com:p", "GOOGLE_CLOUD_LOCATION": "europe-west4"},
            {
                "vertex": "https://europe-west4-aiplatform.googleapis.com/v1/projects/"
                "example.com:p/locations/europe-west4"
            },
        ),
        (
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"},
            {"vertex": "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu"},
        ),
        ({"GOOGLE_CLOUD_LOCATION": "eu"}, {}),
        ({"GOOGLE_CLOUD_PROJECT": "p/../q"}, {}),
        (
            {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"},
            {"azure": "https://mine.openai.azure.com/"},
        ),
    ],
)
def test_the_base_urls(values: dict[str, str], expected: dict[str, str]) -> None:
    assert cloud_base_urls(values) == expected
