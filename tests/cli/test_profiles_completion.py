"""Profiles in the completion of a shell; `test_completion.py` asks a real shell."""

from pathlib import Path

import pytest

from coreason_client.cli.profiles import complete_profile


def test_profiles_are_completed_with_what_they_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("COREASON_CONFIG", str(path))
    assert list(complete_profile("")) == []  # there is no file
    path.write_text("[profiles.prod]\nurl='https://a.example'\napi_key='k'\n[profiles.bad]\nx=1\n")
    assert list(complete_profile("p")) == [("prod", "https://a.example")]
    [(name, why)] = complete_profile("b")
    assert (name, why[:15]) == ("bad", "unknown key 'x'")
    path.write_text("not toml")
    assert list(complete_profile("")) == []
