"""The configuration of the AI client, in the environment and in `.env`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import Field, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from ..errors import ArgumentError
from ._internals import environment_reader
from .errors import LLMRequestError
from .providers.profiles import PROFILES

__all__ = ["LLMSettings", "read_settings"]

_ENV_FILE = ".env"
_KEY_VARIABLES = {row.name: row.key_variable for row in PROFILES if row.key_variable}


class LLMSettings(BaseSettings):
    """The five variables and their defaults."""

    model_config = SettingsConfigDict(
        env_file=_ENV_FILE,
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        case_sensitive=True,  # as the names that are looked up below
        extra="ignore",
        hide_input_in_errors=True,
    )

    api_key: SecretStr | None = Field(None, validation_alias="LLM_API_KEY")
    base_url: str | None = Field(None, validation_alias="LLM_API_BASE_URL")
    default_model: str = Field("gpt-4-turbo", validation_alias="DEFAULT_MODEL")
    timeout: float = Field(60.0, validation_alias="AI_TIMEOUT", gt=0, lt=1e9, allow_inf_nan=False)
    max_retries: int = Field(3, validation_alias="MAX_RETRIES", ge=0)


# Of the variables that are not any text.
_RULES = {
    "AI_TIMEOUT": "must be a number greater than 0",
    "MAX_RETRIES": "must be a whole number, 0 or more",
}

_Field = tuple[Any, Any]
_PROVIDER_FIELDS: dict[str, _Field] = {
    name.replace("-", "_"): (SecretStr | None, Field(None, validation_alias=variable))
    for name, variable in _KEY_VARIABLES.items()
}
_ProviderKeys: type[BaseSettings] = create_model(
    "_ProviderKeys", __base__=LLMSettings, **_PROVIDER_FIELDS
)  # type: ignore[call-overload]

_VARIABLES = (
    "LLM_API_KEY",
    "LLM_API_BASE_URL",
    "DEFAULT_MODEL",
    "AI_TIMEOUT",
    "MAX_RETRIES",
    *_KEY_VARIABLES.values(),
)

_values = environment_reader(_VARIABLES)


@dataclass(frozen=True, slots=True)
class Configured:
    """The configuration; `keys` are the keys of single providers, by their names."""

    api_key: str | None = field(repr=False)
    base_url: str | None
    default_model: str
    timeout: float
    max_retries: int
    keys: Mapping[str, str] = field(repr=False)


def read_settings() -> Configured:
    """Read the environment and `.env` as they are now.

    Raises:
        LLMRequestError: a variable has a value that cannot be.
    """
    return _read(_values(), _stamp())


def _stamp() -> tuple[str, int, int, int] | None:
    """Return the identity and version of `.env`, None when there is none."""
    try:
        found = os.stat(_ENV_FILE)  # noqa: PTH116 - a Path costs more than the look itself
    except OSError:
        return None
    return os.getcwd(), found.st_ino, found.st_mtime_ns, found.st_size  # noqa: PTH109


# Reading costs a millisecond, which is more than a call does; so it is done again only when
# something has changed.
@lru_cache(maxsize=4)
def _read(values: tuple[object, ...], stamp: tuple[str, int, int, int] | None) -> Configured:
    try:
        settings: Any = _ProviderKeys()
    except ValidationError as error:
        raise _wrong_variable(error) from None
    except UnicodeDecodeError:
        raise LLMRequestError(f"{_ENV_FILE} cannot be read: it must be UTF-8") from None
    except OSError as error:
        raise LLMRequestError(f"{_ENV_FILE} cannot be read: {error.strerror}") from None
    given = {name: getattr(settings, name.replace("-", "_")) for name in _KEY_VARIABLES}
    return Configured(
        api_key=_secret(settings.api_key),
        base_url=settings.base_url,
        default_model=settings.default_model,
        timeout=settings.timeout,
        max_retries=settings.max_retries,
        keys={name: key.get_secret_value() for name, key in given.items() if key is not None},
    )


def _wrong_variable(error: ValidationError) -> LLMRequestError:
    first = error.errors(include_url=False)[0]
    variable = str(first["loc"][0])
    # Only numbers can be invalid: a key is any text, so no key is ever shown here.
    rule = f"{_RULES[variable]}, in the environment or in {_ENV_FILE}"
    wrong = ArgumentError(variable, rule, first["input"])
    return LLMRequestError(str(wrong), argument_error=wrong)


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
