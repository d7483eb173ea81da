"""`Profile`: a provider as data."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Profile"]

Auth: TypeAlias = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The wire format of a provider, its addresses, and its differences from the standard.

    To add an OpenAI-compatible provider, add one row to the table in `providers/profiles.py`.
    """

    name: str
    """Also the prefix of `name/model` that selects the provider."""

    prefix: str = ""
    """Model-name prefix, if it differs from `name`."""

    wire: Literal["openai", "anthropic", "gemini", "ollama"] = "openai"
    """Wire format."""

    base_url: str = ""
    """Default base URL; empty if every customer has a separate one."""

    hosts: tuple[str, ...] = ()
    """Hosts of this provider: `api.example` matches exactly, `.example` matches all subdomains,
    `:11434` matches a port of any host. A path after the host must match too; the longest matching
    path wins."""

    path: str = "/v1"
    """Path that is added to a base URL without one."""

    auth: Auth = "bearer"
    """Header that carries the key; "bearer" means `Authorization: Bearer`."""

    key_variable: str = ""
    """Environment variable that holds the key by convention."""

    needs_key: bool = True

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    required_choice: Literal["required", "any"] = "required"
    """Value of `tool_choice` that forces a call of some tool."""

    message_names: bool = True
    """Whether messages may have a `name`."""

    short_ids: bool = False
    """Whether ids of tool calls must be nine letters and digits."""

    json_schemas: bool = True
    """Whether `response_format` accepts a JSON schema, or only "any JSON object"."""

    stream_usage: bool = True
    """Whether `stream_options` must ask for usage at the end of a stream."""

    vendor_names: bool = False
    """Whether its model names may begin with a vendor, so that `openai/…` is one of its models."""

    own_names: tuple[str, ...] = ()
    """Names of its models that begin with its own routing prefix, such as `groq/compound`."""

    only_vendor_names: bool = False
    """Whether all its model names are `vendor/model`, so that `prefix/model` is one of them."""

    echoes_reasoning: bool = False
    """Whether assistant messages are sent back with their `reasoning_content`."""

    prefix_form: Literal["plain", "flag", "continue_final_message"] | None = None
    """How the beginning of an answer is sent for the model to continue: as the last assistant
    message, "plain", with `"prefix": true`, or with `continue_final_message`; None if it cannot."""

    prefix_models: tuple[str, ...] = ()
    """Prefixes of the names of the models that continue an answer; empty if all do."""

    prefix_path: str = ""
    """Path of the base URL for continuing an answer, if it differs."""

    repeats_prefix: bool = False
    """Whether the answer repeats the beginning that it continues."""

    prices: str | None = None
    """Its id in the price table."""
