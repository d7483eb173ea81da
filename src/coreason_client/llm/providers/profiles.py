"""The table of providers. To add one that is compatible with OpenAI, add one row.

A row has the wire format of a provider, its addresses and its differences; `ProviderProfile`
describes each column. The facts come from the providers' SDKs and documentation, and from recorded
traffic.
"""

from dataclasses import replace

from .._profile import ProviderProfile
from ._claude import BEFORE_4_6

__all__ = ["COMPATIBLE", "PROFILES"]

_BEDROCK_REGIONS = ("", "us.", "us-gov.", "eu.", "apac.", "au.", "ca.", "jp.", "global.")
_BEDROCK_BEFORE_4_6 = tuple(
    f"{region}anthropic.{name}" for region in _BEDROCK_REGIONS for name in BEFORE_4_6
)

# Models that OpenAI has only in the Responses API. Chat completions answer with a 404: "This model
# is only supported in v1/responses and not in v1/chat/completions."
_ONLY_RESPONSES = (
    "o[0-9]-pro",
    "o[0-9]-pro-20*",
    "gpt-*-pro",
    "gpt-*-pro-20*",
    "codex-*",
    "*-codex",
    "*-codex-*",
    "o[0-9]*-deep-research*",
    "computer-use-preview*",
)

_OPENAI = ProviderProfile(
    name="openai",
    base_url="https://api.openai.com/v1",
    hosts=("api.openai.com", "eu.api.openai.com", "us.api.openai.com"),
    key_variable="OPENAI_API_KEY",
    max_tokens_field="max_completion_tokens",
    prices="openai",
    responses=True,
    responses_models=_ONLY_RESPONSES,
    encrypted_reasoning="reasoning models",
    background=True,
    developer_role=True,
    file_form="pdf",
    cache_keys=True,
    base64_embeddings=True,
    strict_models=("*",),
)

_VLLM = ProviderProfile(
    name="vllm",
    base_url="http://127.0.0.1:8000/v1",
    needs_key=False,
    prefix_form="continue_final_message",  # "The sky" is answered with " is blue."
    responses=True,
    file_form=None,
    lacks=("service_tier",),
)

_LMSTUDIO = ProviderProfile(
    name="lmstudio",
    base_url="http://127.0.0.1:1234/v1",
    needs_key=False,
    responses=True,
    file_form=None,
    audio_form=None,
    lacks=("parallel_tool_calls", "service_tier"),
)

PROFILES: tuple[ProviderProfile, ...] = (
    _OPENAI,
    replace(
        _OPENAI,
        name="azure",
        base_url="",
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        path="/openai/v1",
        auth="api-key",
        fetched_auth="bearer",
        key_variable="AZURE_OPENAI_API_KEY",
        base_url_variables="AZURE_OPENAI_ENDPOINT",
        prices="azure",
    ),
    ProviderProfile(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        hosts=("api.mistral.ai", "api.eu.mistral.ai", "api.us.mistral.ai"),
        key_variable="MISTRAL_API_KEY",
        required_choice="any",
        message_names=False,
        short_ids=True,
        stream_usage=False,  # it is always sent
        prefix_form="flag",
        repeats_prefix=True,  # "The sky" is answered with "The sky is blue."
        prices="mistral",
        max_temperature=1.5,
        file_form="document_url",
        audio_form="text",
        dimensions_field="output_dimension",
        seed_field="random_seed",
        strict_models=("*",),
    ),
    ProviderProfile(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        hosts=("api.groq.com",),
        path="/openai/v1",
        key_variable="GROQ_API_KEY",
        max_tokens_field="max_completion_tokens",
        vendor_names=True,
        own_names=("groq/compound",),
        prices="groq",
        responses=True,
        file_form=None,
        audio_form=None,
        strict_models=("openai/gpt-oss-*",),
    ),
    ProviderProfile(
        name="deepseek",
        base_url="https://api.deepseek.com",
        hosts=("api.deepseek.com",),
        path="",
        key_variable="DEEPSEEK_API_KEY",
        echoes_reasoning=True,
        json_schemas=False,
        prefix_form="flag",
        prefix_path="/beta",  # "The sky" is answered with " is blue."
        prices="deepseek",
        responses=True,
        file_form=None,
        audio_form=None,
        lacks=("seed", "parallel_tool_calls", "service_tier"),
        thinking_switch=True,
    ),
    ProviderProfile(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        hosts=("openrouter.ai",),
        path="/api/v1",
        key_variable="OPENROUTER_API_KEY",
        vendor_names=True,
        only_vendor_names=True,
        prices="openrouter",
        responses=True,
        encrypted_reasoning="reasoning models",
        developer_role=True,
        file_form="url",
        strict_models=("*",),
    ),
    ProviderProfile(
        name="xai",
        base_url="https://api.x.ai/v1",
        hosts=("api.x.ai",),
        key_variable="XAI_API_KEY",
        prices="x-ai",
        responses=True,
        encrypted_reasoning="all models",
        lacks=("service_tier",),
        strict_models=("*",),
    ),
    ProviderProfile(
        name="together",
        base_url="https://api.together.xyz/v1",
        hosts=("api.together.xyz", "api.together.ai"),
        key_variable="TOGETHER_API_KEY",
        vendor_names=True,
        prices="together",
        lacks=("parallel_tool_calls", "service_tier"),
        strict_models=("*",),
    ),
    ProviderProfile(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        hosts=("api.fireworks.ai",),
        path="/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        prices="fireworks",
        responses=True,
        strict_models=("*",),
    ),
    ProviderProfile(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        hosts=("api.cerebras.ai",),
        key_variable="CEREBRAS_API_KEY",
        max_tokens_field="max_completion_tokens",
        prices="cerebras",
        max_temperature=1.5,
        file_form=None,
        audio_form=None,
        strict_models=("*",),
    ),
    ProviderProfile(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        hosts=("api.perplexity.ai",),
        path="",
        key_variable="PERPLEXITY_API_KEY",
        prices="perplexity",
        embeddings="perplexity",
    ),
    ProviderProfile(
        name="cohere",
        base_url="https://api.cohere.ai/compatibility/v1",
        hosts=("api.cohere.ai", "api.cohere.com"),
        path="/compatibility/v1",
        key_variable="COHERE_API_KEY",
        prices="cohere",
        embeddings="cohere",
        file_form=None,
        audio_form=None,
    ),
    _VLLM,
    _LMSTUDIO,
    replace(_VLLM, name="llamacpp", base_url="http://127.0.0.1:8080/v1"),
    ProviderProfile(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        hosts=("api.anthropic.com",),
        auth="x-api-key",
        key_variable="ANTHROPIC_API_KEY",
        prefix_form="plain",  # "The sky" is answered with " is blue."
        prefix_models=BEFORE_4_6,
        prices="anthropic",
        max_temperature=1.0,
    ),
    ProviderProfile(
        name="gemini",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        hosts=("generativelanguage.googleapis.com",),
        path="/v1beta",
        auth="x-goog-api-key",
        key_variable="GEMINI_API_KEY",
        prices="google",
    ),
    ProviderProfile(
        name="gemini-openai",
        prefix="gemini",
        hosts=(
            "generativelanguage.googleapis.com/v1beta/openai",
            "generativelanguage.googleapis.com/v1/openai",
        ),
        prices="google",
    ),
    ProviderProfile(
        name="vertex",
        aliases=("gemini", "anthropic"),
        wire="vertex",
        hosts=(
            "aiplatform.googleapis.com",
            "*-aiplatform.googleapis.com",
            "aiplatform.*.rep.googleapis.com",
        ),
        key_variable="GOOGLE_OAUTH_ACCESS_TOKEN",
        base_url_variables="GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION",
        prices="google",
    ),
    ProviderProfile(
        name="bedrock",
        wire="bedrock",
        hosts=(
            "bedrock-runtime.*.amazonaws.com",
            "bedrock-runtime-fips.*.amazonaws.com",
            "bedrock-runtime.*.amazonaws.com.cn",
            "*.bedrock-runtime.*.vpce.amazonaws.com",
        ),
        path="",
        signs=True,
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        base_url_variables="AWS_REGION",
        prefix_form="plain",  # "The sky" is answered with " is blue."
        prefix_models=_BEDROCK_BEFORE_4_6,
        prices="aws",
        max_temperature=1.0,
    ),
    ProviderProfile(
        name="ollama",
        wire="ollama",
        base_url="http://127.0.0.1:11434/api",
        hosts=(":11434", "ollama.com"),
        path="/api",
        key_variable="OLLAMA_API_KEY",
        needs_key=False,
    ),
    replace(
        _LMSTUDIO,
        name="ollama-openai",
        prefix="ollama",
        base_url="",
        hosts=(":11434/v1", "ollama.com/v1"),
    ),
)

COMPATIBLE = ProviderProfile(name="openai-compatible", responses=True)
"""The profile for an unknown host and a model name without a known prefix."""
