"""The configuration of the AI client: environment variables and `.env`."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic import Field, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from ..errors import ArgumentError
from ._argument_errors import invalid
from ._internals import environment_reader
from .credentials import AWSCredentials, Key, bedrock_url, check_region
from .errors import LLMRequestError
from .providers.profiles import PROFILES

__all__ = ["LLMSettings", "read_settings"]

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

_ENV_FILE = ".env"
_KEY_VARIABLES = {row.name: row.key_variable for row in PROFILES if row.key_variable}


class LLMSettings(BaseSettings):
    """The five variables and their defaults."""

    model_config = SettingsConfigDict(
        env_file=_ENV_FILE,
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        case_sensitive=True,  # like `environment_reader` below
        extra="ignore",
        hide_input_in_errors=True,
    )

    api_key: SecretStr | None = Field(None, validation_alias="LLM_API_KEY")
    base_url: str | None = Field(None, validation_alias="LLM_API_BASE_URL")
    default_model: str = Field("gpt-4-turbo", validation_alias="DEFAULT_MODEL")
    timeout: float = Field(60.0, validation_alias="AI_TIMEOUT", gt=0, lt=1e9, allow_inf_nan=False)
    max_retries: int = Field(3, validation_alias="MAX_RETRIES", ge=0)


# Of the variables whose value is a number.
_RULES = {
    "AI_TIMEOUT": "must be a number greater than 0",
    "MAX_RETRIES": "must be a whole number, 0 or more",
}

_Field = tuple[Any, Any]
_PROVIDER_FIELDS: dict[str, _Field] = {
    name.replace("-", "_"): (SecretStr | None, Field(None, validation_alias=variable))
    for name, variable in _KEY_VARIABLES.items()
}
_CLOUD_FIELDS: dict[str, _Field] = {
    name.lower(): (SecretStr | None, Field(None, validation_alias=name)) for name in CLOUD_VARIABLES
}
_ProviderKeys: type[BaseSettings] = create_model(
    "_ProviderKeys", __base__=LLMSettings, **_PROVIDER_FIELDS, **_CLOUD_FIELDS
)  # type: ignore[call-overload]

_VARIABLES = tuple(str(one.validation_alias) for one in _ProviderKeys.model_fields.values())

_current_values = environment_reader(_VARIABLES)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration; `keys` and `base_urls` are those of single providers, by their names."""

    api_key: str | None = field(repr=False)
    base_url: str | None
    default_model: str
    timeout: float
    max_retries: int
    keys: Mapping[str, Key] = field(repr=False)
    base_urls: Mapping[str, str]


def read_settings() -> Configuration:
    """Return the current configuration from the environment and `.env`.

    Raises:
        LLMRequestError: a variable has an invalid value, or `.env` cannot be read.
    """
    global _last
    found = (_current_values(), _env_file_version())
    if _last is None or _last[0] != found:
        _last = found, _read(*found)
    return _last[1]


_Version: TypeAlias = tuple[str, int, int, int] | None

_last: tuple[tuple[tuple[object, ...], _Version], Configuration] | None = None


def _env_file_version() -> _Version:
    """Return a value that changes whenever `.env` does, None if there is no such file."""
    if not os.access(_ENV_FILE, os.F_OK):  # takes a third of the time of a `stat` that fails
        return None
    try:
        found = os.stat(_ENV_FILE)  # noqa: PTH116 - creating a Path takes longer than the call
    except OSError:
        return None
    return os.getcwd(), found.st_ino, found.st_mtime_ns, found.st_size  # noqa: PTH109


# Reading takes a millisecond, longer than a call; so it is repeated only after a change.
@lru_cache(maxsize=4)
def _read(values: tuple[object, ...], version: _Version) -> Configuration:
    try:
        settings: Any = _ProviderKeys()
    except ValidationError as error:
        raise _invalid_variable(error) from None
    except UnicodeDecodeError:
        raise LLMRequestError(f"{_ENV_FILE} cannot be read: it must be UTF-8") from None
    except OSError as error:
        raise LLMRequestError(f"{_ENV_FILE} cannot be read: {error.strerror}") from None
    keys = {name: getattr(settings, name.replace("-", "_")) for name in _KEY_VARIABLES}
    cloud = _given({name: getattr(settings, name.lower()) for name in CLOUD_VARIABLES})
    return Configuration(
        api_key=_secret(settings.api_key),
        base_url=settings.base_url,
        default_model=settings.default_model,
        timeout=settings.timeout,
        max_retries=settings.max_retries,
        keys=cloud_keys(cloud, _given(keys)),
        base_urls=cloud_base_urls(cloud),
    )


def _given(values: Mapping[str, SecretStr | None]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in values.items() if value is not None}


def _invalid_variable(error: ValidationError) -> LLMRequestError:
    first = error.errors(include_url=False)[0]
    variable = str(first["loc"][0])
    # Only numbers can be invalid, so this never shows a key.
    rule = f"{_RULES[variable]}, in the environment or in {_ENV_FILE}"
    return invalid(variable, rule, first["input"])


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


# Keys and base URLs of clouds, from the variables that their own tools use.
#
# * Bedrock: `AWS_BEARER_TOKEN_BEDROCK`, or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` with an
#   optional `AWS_SESSION_TOKEN`. The base URL follows from `AWS_REGION` or `AWS_DEFAULT_REGION`.
# * Vertex: the base URL follows from `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION`, which is
#   `global` by default.
# * Azure: `AZURE_OPENAI_ENDPOINT` is the base URL.
#
# Values of AWS and Google that cannot be used are ignored, because other programs need them too.

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
