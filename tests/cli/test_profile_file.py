"""The file with the profiles: where it is, what is wrong with it, and who can read it."""

from pathlib import Path

import pytest

from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.profiles import load_profiles


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a file that is private and contains one profile."""
    path = tmp_path / "config.toml"
    path.write_text('[profiles.prod]\nurl = "https://agent.example"\napi_key = "secret-key"\n')
    path.chmod(0o600)
    monkeypatch.setenv("COREASON_CONFIG", str(path))
    return path


def failure() -> str:
    with pytest.raises(Failure) as caught:
        load_profiles().get("prod")
    assert caught.value.code is ExitCode.USAGE
    assert "secret-key" not in str(caught.value)
    return str(caught.value)


def test_the_file_is_in_the_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COREASON_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    found = load_profiles()
    path = tmp_path / "coreason" / "config.toml"
    assert (found.path, found.exists, dict(found.tables)) == (path, False, {})
    assert failure() == f"there is no profile 'prod': {path} does not exist"
    path.parent.mkdir()
    path.write_text('\ufeff[profiles]\na = {llm = "m"}\n')
    assert load_profiles().get("a").llm == "m"
    assert failure() == f"there is no profile 'prod': {path} has a"
    path.write_text("")
    assert failure() == f"there is no profile 'prod': {path} has no profiles"


def test_a_key_that_others_can_read_is_reported(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load_profiles().get("prod").api_key == "secret-key"
    assert capsys.readouterr().err == ""
    path.chmod(0o640)
    load_profiles().get("prod")
    assert f"can read or change {path}, which contains a key" in capsys.readouterr().err
    path.write_text('[profiles.prod]\nurl = "https://agent.example"\napi_key_env = "K"\n')
    load_profiles().get("prod")
    assert capsys.readouterr().err == ""


def test_a_wrong_file_is_one_sentence_with_its_place(path: Path) -> None:
    for content, says in (
        (b"[profiles.prod]\nurl = x\n", "not valid TOML: Invalid value (at line 2, column 7)"),
        (b"[profiles.prod]\napi_key = 'secret-key\n", "not valid TOML: "),
        (b"# one\n\xff\n", "not UTF-8 (at line 2)"),
        (b"[profile.prod]\n", "unknown key 'profile'; a profile is a table [profiles.NAME]"),
        (b"profiles = 1\n", "a profile must be a table [profiles.NAME]"),
        (b"[profiles]\nprod = 1\n", "a profile must be a table [profiles.NAME]"),
        (b"[profiles.'a b']\n", "invalid name of a profile, 'a b'; expected ASCII letters"),
        (b"#" * (1024 * 1024 + 1), "the file is larger than 1 MiB"),
    ):
        path.write_bytes(content)
        assert failure().startswith(f"{path}: {says}")
    path.write_text("[profiles.prod]\nulr = 'x'\n")
    assert failure().startswith(f"{path}: profile 'prod': unknown key 'ulr'; expected one of ")
    path.unlink()
    assert failure() == f"{path}: there is no such file (see COREASON_CONFIG)"
    path.mkdir()
    assert failure() == f"{path}: is a directory"
