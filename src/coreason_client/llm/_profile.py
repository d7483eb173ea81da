"""`ProviderProfile`: a provider as data."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Auth: TypeAlias = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProfile:
    """The wire format of a provider, its addresses, and its differences from the standard.

    To add an OpenAI-compatible provider, add one row to the table in `providers/profiles.py`.
    """

    name: str
    """Also the prefix of `name/model` that selects the provider."""

    prefix: str = ""
    """Model-name prefix, if it differs from `name`."""

    aliases: tuple[str, ...] = ()
    """Prefixes of other providers that its models may have too: they are removed as well."""

    wire: Literal[
        "openai",
        "anthropic",
        "gemini",
        "vertex",
        "vertex-claude",
        "ollama",
        "bedrock",
        "responses",
    ] = "openai"
    """Wire format."""

    embeddings: Literal["cohere", "perplexity"] | None = None
    """Wire format of embeddings, if it differs."""

    base_url: str = ""
    """Default base URL; empty if every customer has a separate one."""

    base_url_variables: str = ""
    """Environment variables that determine the base URL, if there is no default."""

    hosts: tuple[str, ...] = ()
    """Hosts of this provider: `api.example` matches exactly, `.example` matches all subdomains, `*`
    matches any text, `:11434` matches a port of any host. A path after the host must match too; the
    longest matching path wins."""

    path: str = "/v1"
    """Path that is added to a base URL without one."""

    auth: Auth = "bearer"
    """Header that carries the key; "bearer" means `Authorization: Bearer`."""

    fetched_auth: Auth | None = None
    """Header that carries the tokens which a callable returns, if it differs from `auth`."""

    signs: bool = False
    """True if requests can be signed with AWS credentials."""

    key_variable: str = ""
    """Environment variable that holds the key by convention."""

    needs_key: bool = True

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    max_temperature: float = 2.0
    """The highest `temperature` that it accepts."""

    lacks: tuple[str, ...] = ()
    """Arguments by name that it does not have, although its wire format has them."""

    seed_field: Literal["seed", "random_seed"] = "seed"
    """Field for the `seed` on OpenAI's wire."""

    thinking_switch: bool = False
    """True if `thinking` switches reasoning on and off on OpenAI's wire, beside its effort."""

    developer_role: bool = False
    """True if messages may have the role "developer"; otherwise they are sent as "system"."""

    file_form: Literal["file", "pdf", "url", "document_url"] | None = "file"
    """The form of files on OpenAI's wire: `file` parts, "pdf" if only with the data or the id of a
    PDF, "url" if `file_data` may be an http(s) URL, or `document_url` parts; None if it has no
    files."""

    audio_form: Literal["object", "text"] | None = "object"
    """The form of `input_audio` on OpenAI's wire: with the format, or only base64; None if not."""

    cache_keys: bool = False
    """True if `prompt_cache_key` may be sent, which selects a cache of prompts."""

    base64_embeddings: bool = False
    """True if embeddings are requested in base64."""

    dimensions_field: Literal["dimensions", "output_dimension"] = "dimensions"
    """Field for the number of dimensions of embeddings on OpenAI's wire."""

    required_choice: Literal["required", "any"] = "required"
    """Value of `tool_choice` that forces a call of some tool."""

    message_names: bool = True
    """True if messages may have a `name`."""

    short_ids: bool = False
    """True if ids of tool calls must be nine letters and digits."""

    json_schemas: bool = True
    """True if `response_format` accepts a JSON schema, or only "any JSON object"."""

    strict_models: tuple[str, ...] = ()
    """Patterns of the names of the models that enforce a strict schema on OpenAI's wire."""

    stream_usage: bool = True
    """True if `stream_options` must ask for usage at the end of a stream."""

    vendor_names: bool = False
    """True if its model names may begin with a vendor, so that `openai/…` is one of its models."""

    own_names: tuple[str, ...] = ()
    """Names of its models that begin with its own routing prefix, such as `groq/compound`."""

    only_vendor_names: bool = False
    """True if all its model names are `vendor/model`, so that `prefix/model` is one of them."""

    echoes_reasoning: bool = False
    """True if assistant messages are sent back with their `reasoning_content`."""

    responses: bool = False
    """True if it also has OpenAI's Responses API, so that `wire="responses"` is possible."""

    responses_models: tuple[str, ...] = ()
    """Patterns of the names of the models that it has only in the Responses API."""

    encrypted_reasoning: Literal["all models", "reasoning models"] | None = None
    """True if the Responses API returns reasoning in encrypted form on request, to be sent back:
    for "all models", or only for OpenAI's "reasoning models", while others reject the request."""

    background: bool = False
    """True if its Responses API has background responses, whose streams can be resumed."""

    prefix_form: Literal["plain", "flag", "continue_final_message"] | None = None
    """The form of the beginning of an answer that the model is to continue: the last assistant
    message, "plain", with `"prefix": true`, or with `continue_final_message`; None if it cannot."""

    prefix_models: tuple[str, ...] = ()
    """Prefixes of the names of the models that continue an answer; empty if all do."""

    prefix_path: str = ""
    """Path of the base URL for continuing an answer, if it differs."""

    repeats_prefix: bool = False
    """True if the answer repeats the beginning that it continues."""

    prices: str | None = None
    """Its id in the price table."""
