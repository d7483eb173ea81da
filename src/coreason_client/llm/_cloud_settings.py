"""Keys and base URLs of clouds, from the variables that their own tools use. Pure.

* Bedrock: `AWS_BEARER_TOKEN_BEDROCK`, or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` with an
  optional `AWS_SESSION_TOKEN`. The base URL follows from `AWS_REGION` or `AWS_DEFAULT_REGION`.
* Vertex: the base URL follows from `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION`, which is
  `global` by default.
* Azure: `AZURE_OPENAI_ENDPOINT` is the base URL.

Values of AWS and Google that cannot be used are ignored, because other programs need them too.
"""

import re
from collections.abc import Mapping

from ..errors import ArgumentError
from ._auth import bedrock_url
from .credentials import AWSCredentials, Key, check_region

__all__ = ["CLOUD_VARIABLES", "cloud_base_urls", "cloud_keys"]

CLOUD_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "AZURE_OPENAI_ENDPOINT",
)

_NAME = re.compile(r"[a-z0-9:.-]{1,100}", re.ASCII)
_MULTI_REGIONS = ("us", "eu")


def cloud_keys(values: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, Key]:
    """Return the keys by provider name; a key of Bedrock precedes AWS credentials."""
    found: dict[str, Key] = {**keys}
    access_key, secret_key = values.get("AWS_ACCESS_KEY_ID"), values.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key and "bedrock" not in found:
        token = values.get("AWS_SESSION_TOKEN")
        try:
            found["bedrock"] = AWSCredentials(access_key, secret_key, token, _region(values))
        except ArgumentError:
            return found
    return found


def cloud_base_urls(values: Mapping[str, str]) -> dict[str, str]:
    """Return the base URLs by provider name."""
    urls = {}
    if region := _region(values):
        urls["bedrock"] = bedrock_url(region)
    project = values.get("GOOGLE_CLOUD_PROJECT", "")
    location = values.get("GOOGLE_CLOUD_LOCATION", "global")
    if _NAME.fullmatch(project) and _NAME.fullmatch(location):
        host = _vertex_host(location)
        urls["vertex"] = f"https://{host}/v1/projects/{project}/locations/{location}"
    if endpoint := values.get("AZURE_OPENAI_ENDPOINT"):
        urls["azure"] = endpoint
    return urls


def _region(values: Mapping[str, str]) -> str | None:
    region = values.get("AWS_REGION") or values.get("AWS_DEFAULT_REGION")
    try:
        return None if region is None else check_region(region)
    except ArgumentError:
        return None


def _vertex_host(location: str) -> str:
    if location == "global":
        return "aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{location}-aiplatform.googleapis.com"
