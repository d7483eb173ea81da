"""`coreason profiles`, and the commands that use a profile."""

from pathlib import Path

from .command import coreason_here
from .conftest import Service


def config(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return {"COREASON_CONFIG": str(path)}


def test_profiles_are_listed_without_their_keys(tmp_path: Path) -> None:
    env = config(
        tmp_path,
        '[profiles.prod]\nurl = "https://agent.example"\napi_key = "secret-key"\n'
        '[profiles.fast]\nllm = "gpt-4o"\n',
    )
    done = coreason_here("profiles", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "fast\tgpt-4o\nprod\thttps://agent.example\n"
    done = coreason_here("profiles", "--path", env=env)
    assert done.stdout == f"{tmp_path / 'config.toml'}\n"
    done = coreason_here("profiles", env={"XDG_CONFIG_HOME": str(tmp_path / "none")})
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("There are no profiles: ")


def test_a_profile_is_the_first_word_or_an_option(service: Service, tmp_path: Path) -> None:
    env = config(tmp_path, f'[profiles.prod]\nurl = "{service.url}"\n[profiles.bad]\nurl = "x"\n')
    for arguments, stdin in (
        (["prod", "hi"], None),
        (["prod"], "hi"),
        (["--profile", "prod", "hi"], None),
    ):
        done = coreason_here("chat", *arguments, stdin=stdin, env=env)
        assert (done.stdout, done.stderr) == ("Before: []. Now: hi.\n", "")
    done = coreason_here("chat", "--profile", "prod", "prod", env=env)
    assert done.stdout == "Before: []. Now: prod.\n"
    for arguments, says in (
        (["--profile", "prdo", "hi"], f"no profile 'prdo': {tmp_path}/config.toml has bad, prod"),
        (["bad", "hi"], "url of profile 'bad' must start with http:// or https://"),
        (["prod", "--llm", "x", "--url", service.url, "hi"], "--url and --llm cannot be used"),
        (["prod", "--chaos", "--kill", "hi"], "--kill and url of profile 'prod' cannot be used"),
    ):
        done = coreason_here("chat", *arguments, env=env)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


def test_a_mistake_in_the_file_disturbs_only_what_may_be_a_profile(
    service: Service, tmp_path: Path
) -> None:
    env = config(tmp_path, "[profiles.prod\n")
    done = coreason_here("chat", "--url", service.url, "What now?", env=env)
    assert done.stdout == "Before: []. Now: What now?.\n"
    done = coreason_here("chat", "prod", env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "config.toml: not valid TOML" in done.stderr
    assert "at line 1" in done.stderr


def test_a_model_of_a_profile_is_asked(tmp_path: Path) -> None:
    env = config(
        tmp_path,
        '[profiles.fast]\nllm = "fast-model"\n[profiles.prod]\nurl = "https://a.example"\n',
    )
    done = coreason_here("llm", "--profile", "prod", "hi", env=env)
    assert done.returncode == 2
    assert "profile 'prod' has no llm: give a model with -m" in done.stderr
    done = coreason_here("llm", "--profile", "fast", "hi", env=env)
    assert done.returncode == 1  # there is no key for it
    assert "key" in done.stderr


def test_a_word_that_is_no_profile_is_asked_and_that_is_said(tmp_path: Path) -> None:
    env = config(tmp_path, '[profiles.prod]\nurl = "https://agent.example"\n')
    done = coreason_here("chat", "prd", env=env)
    assert done.returncode == 0
    assert "There is no profile 'prd': it is asked as a question.\n" in done.stderr
    done = coreason_here("chat", "How do I resume a stream?", env=env)
    assert "profile" not in done.stderr
