"""Profiles: names for agents and models, in a TOML file of the user."""

from ._choose import looks_like_name, split_profile
from ._command import PROFILES_EPILOG, profiles
from ._completion import complete_profile, complete_profile_word
from ._key import profile_key
from ._profile import Profile
from ._profile_file import CONFIG_VARIABLE, ProfileFile, load_profiles

__all__ = [
    "CONFIG_VARIABLE",
    "PROFILES_EPILOG",
    "Profile",
    "ProfileFile",
    "complete_profile",
    "complete_profile_word",
    "load_profiles",
    "looks_like_name",
    "profile_key",
    "profiles",
    "split_profile",
]
