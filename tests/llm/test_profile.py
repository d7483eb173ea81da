"""Profiles: what a row of the table leaves out is the behaviour of OpenAI's API."""

import dataclasses

import pytest

from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers import ADAPTERS


def test_a_name_is_enough_for_a_compatible_provider() -> None:
    profile = ProviderProfile(name="mine")
    assert (profile.wire, profile.path, profile.auth) == ("openai", "/v1", "bearer")
    assert profile.wire in ADAPTERS
    assert (profile.base_url, profile.hosts, profile.prefix, profile.own_names) == ("", (), "", ())
    assert profile.needs_key
    assert profile.max_tokens_field == "max_tokens"
    assert profile.required_choice == "required"


def test_by_default_every_standard_feature_is_used_and_no_peculiarity() -> None:
    profile = ProviderProfile(name="mine")
    assert profile.message_names
    assert profile.json_schemas
    assert profile.stream_usage
    peculiar = (
        profile.short_ids,
        profile.vendor_names,
        profile.only_vendor_names,
        profile.echoes_reasoning,
        profile.responses,
        profile.background,
    )
    assert not any(peculiar)


def test_a_profile_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ProviderProfile(name="mine").name = "other"  # type: ignore[misc]
