"""The table of providers. To add one that is compatible with OpenAI, add one row.

A row has the wire format of a provider, its addresses and its differences; `Profile` describes
each column. The facts come from the providers' SDKs and documentation, and from recorded traffic.
"""

from .._profile import Profile

__all__ = ["COMPATIBLE", "PROFILES"]

PROFILES: tuple[Profile, ...] = (
    Profile(
        name="openai",
        base_url="https://api.openai.com/v1",
        hosts=("api.openai.com", "eu.api.openai.com", "us.api.openai.com"),
        key_variable="OPENAI_API_KEY",
        max_tokens_field="max_completion_tokens",
        prices="openai",
    ),
    Profile(
        name="azure",
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        path="/openai/v1",
        auth="api-key",
        key_variable="AZURE_OPENAI_API_KEY",
        max_tokens_field="max_completion_tokens",
        prices="azure",
    ),
    Profile(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        hosts=("api.mistral.ai", "api.eu.mistral.ai", "api.us.mistral.ai"),
        key_variable="MISTRAL_API_KEY",
        required_choice="any",
        message_names=False,
        short_ids=True,
        stream_usage=False,  # it is always sent
        prices="mistral",
    ),
    Profile(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        hosts=("api.groq.com",),
        path="/openai/v1",
        key_variable="GROQ_API_KEY",
        max_tokens_field="max_completion_tokens",
        vendor_names=True,
        own_names=("groq/compound",),
        prices="groq",
    ),
    Profile(
        name="deepseek",
        base_url="https://api.deepseek.com",
        hosts=("api.deepseek.com",),
        path="",
        key_variable="DEEPSEEK_API_KEY",
        echoes_reasoning=True,
        json_schemas=False,
        prices="deepseek",
    ),
    Profile(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        hosts=("openrouter.ai",),
        path="/api/v1",
        key_variable="OPENROUTER_API_KEY",
        vendor_names=True,
        only_vendor_names=True,
        prices="openrouter",
    ),
    Profile(
        name="xai",
        base_url="https://api.x.ai/v1",
        hosts=("api.x.ai",),
        key_variable="XAI_API_KEY",
        prices="x-ai",
    ),
    Profile(
        name="together",
        base_url="https://api.together.xyz/v1",
        hosts=("api.together.xyz", "api.together.ai"),
        key_variable="TOGETHER_API_KEY",
        vendor_names=True,
        prices="together",
    ),
    Profile(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        hosts=("api.fireworks.ai",),
        path="/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        prices="fireworks",
    ),
    Profile(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        hosts=("api.cerebras.ai",),
        key_variable="CEREBRAS_API_KEY",
        max_tokens_field="max_completion_tokens",
        prices="cerebras",
    ),
    Profile(name="vllm", base_url="http://127.0.0.1:8000/v1", needs_key=False),
    Profile(name="lmstudio", base_url="http://127.0.0.1:1234/v1", needs_key=False),
    Profile(name="llamacpp", base_url="http://127.0.0.1:8080/v1", needs_key=False),
    Profile(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        hosts=("api.anthropic.com",),
        auth="x-api-key",
        key_variable="ANTHROPIC_API_KEY",
        prices="anthropic",
    ),
    Profile(
        name="gemini",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        hosts=("generativelanguage.googleapis.com",),
        path="/v1beta",
        auth="x-goog-api-key",
        key_variable="GEMINI_API_KEY",
        prices="google",
    ),
    Profile(
        name="gemini-openai",
        prefix="gemini",
        hosts=(
            "generativelanguage.googleapis.com/v1beta/openai",
            "generativelanguage.googleapis.com/v1/openai",
        ),
        prices="google",
    ),
    Profile(
        name="ollama",
        wire="ollama",
        base_url="http://127.0.0.1:11434/api",
        hosts=(":11434", "ollama.com"),
        path="/api",
        key_variable="OLLAMA_API_KEY",
        needs_key=False,
    ),
    Profile(
        name="ollama-openai",
        prefix="ollama",
        hosts=(":11434/v1", "ollama.com/v1"),
        needs_key=False,
    ),
)

COMPATIBLE = Profile(name="openai-compatible")
"""The profile for an unknown host and a model name without a known prefix."""
