"""The table of providers: each row is complete and does not collide with another."""

from collections import Counter

import pytest

from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm._route import Target
from coreason_client.llm.providers import ADAPTERS
from coreason_client.llm.providers.profiles import COMPATIBLE, PROFILES

BY_NAME = {profile.name: profile for profile in PROFILES}
each_profile = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)


def test_names_and_hosts_are_unique() -> None:
    counts = Counter(profile.name for profile in PROFILES)
    counts += Counter(host for profile in PROFILES for host in profile.hosts)
    assert {text for text, count in counts.items() if count > 1} == set()


@each_profile
def test_the_wire_format_has_an_adapter(profile: ProviderProfile) -> None:
    assert profile.wire in ADAPTERS


@each_profile
def test_a_row_leads_to_its_provider(profile: ProviderProfile) -> None:
    if not profile.base_url:
        return
    route = Target(profile.base_url, "sk-own").route("m")
    if profile.hosts:
        assert route.profile is profile
    assert route.base == profile.base_url
    assert Target(f"{profile.base_url}/", "sk-own").route("m").base == profile.base_url


@each_profile
def test_a_default_address_is_encrypted_unless_it_is_this_machine(profile: ProviderProfile) -> None:
    local = "http://127.0.0.1:"
    assert not profile.base_url or profile.base_url.startswith(("https://", local))
    assert profile.needs_key is not (profile.base_url.startswith(local) or "ollama" in profile.name)


@each_profile
def test_a_provider_with_a_public_address_has_a_variable_for_its_key(
    profile: ProviderProfile,
) -> None:
    if profile.base_url.startswith("https://"):
        assert profile.key_variable == f"{profile.name.upper()}_API_KEY"
        assert profile.prices


@each_profile
def test_the_path_is_the_one_of_the_default_address(profile: ProviderProfile) -> None:
    """A base URL that has only a host gets this path."""
    if profile.base_url:
        assert "/" + profile.base_url.partition("://")[2].partition("/")[2] == (profile.path or "/")


def test_own_names_begin_with_the_prefix_of_their_provider() -> None:
    names = [(profile, name) for profile in PROFILES for name in profile.own_names]
    assert names
    assert all(name.startswith(f"{profile.name}/") for profile, name in names)


def test_a_profile_with_another_prefix_shares_it_with_the_provider_of_that_name() -> None:
    prefixes = {profile.name: profile.prefix for profile in PROFILES if profile.prefix}
    assert prefixes == {"gemini-openai": "gemini", "ollama-openai": "ollama"}
    for name, prefix in prefixes.items():
        assert BY_NAME[prefix].wire != BY_NAME[name].wire == "openai"


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("openai", "max_tokens_field", "max_completion_tokens"),
        ("azure", "auth", "api-key"),
        ("azure", "path", "/openai/v1"),
        ("mistral", "required_choice", "any"),
        ("mistral", "message_names", False),
        ("mistral", "short_ids", True),
        ("mistral", "stream_usage", False),
        ("groq", "vendor_names", True),
        ("deepseek", "json_schemas", False),
        ("deepseek", "echoes_reasoning", True),
        ("openrouter", "only_vendor_names", True),
        ("together", "vendor_names", True),
        ("anthropic", "auth", "x-api-key"),
        ("gemini", "auth", "x-goog-api-key"),
    ],
)
def test_known_differences_from_the_standard(name: str, field: str, value: object) -> None:
    assert getattr(BY_NAME[name], field) == value


def test_the_profile_for_unknown_hosts_has_both_formats_and_is_not_in_the_table() -> None:
    assert ProviderProfile(name="openai-compatible", responses=True) == COMPATIBLE
    assert COMPATIBLE.name not in BY_NAME


def test_these_providers_have_the_responses_api() -> None:
    assert {profile.name for profile in PROFILES if profile.responses} == {
        "azure",
        "deepseek",
        "fireworks",
        "groq",
        "llamacpp",
        "lmstudio",
        "ollama-openai",
        "openai",
        "openrouter",
        "vllm",
        "xai",
    }


@each_profile
def test_what_depends_on_the_responses_api(profile: ProviderProfile) -> None:
    """Each of these columns has a value only at providers that have the API."""
    depends = bool(profile.responses_models or profile.encrypted_reasoning or profile.background)
    assert profile.responses or not depends
    assert not profile.responses or profile.wire == "openai"


@pytest.mark.parametrize(
    ("name", "models", "encrypted", "background"),
    [
        ("openai", True, "reasoning models", True),
        ("azure", True, "reasoning models", True),
        ("openrouter", False, "reasoning models", False),
        ("xai", False, "all models", False),
        ("groq", False, None, False),
        ("deepseek", False, None, False),
        ("fireworks", False, None, False),
        ("vllm", False, None, False),
        ("lmstudio", False, None, False),
        ("llamacpp", False, None, False),
        ("ollama-openai", False, None, False),
    ],
)
def test_the_responses_api_of_a_provider(
    name: str, encrypted: str | None, *, models: bool, background: bool
) -> None:
    profile = BY_NAME[name]
    found = bool(profile.responses_models), profile.encrypted_reasoning, profile.background
    assert found == (models, encrypted, background)
