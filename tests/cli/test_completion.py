"""`coreason completion`: the script works in a real bash."""

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from .command import COMMAND, PATIENCE, coreason_here, environment

IN_BASH = {
    "coreason comp": ["completion"],
    "coreason chat --profile ": ["fast", "prod"],
}
LINES = {
    **IN_BASH,
    "coreason chat pr": ["prod"],
    "coreason inspect --protocol a": ["a2a"],
    "coreason pro": ["profiles"],
    "coreason completion f": ["fish"],
    "coreason chat --pro": ["--profile"],
    "coreason chat --llm ollama-": ["ollama-openai/"],
    "coreason chat prod pr": [],
    "coreason llm --profile f": ["fast"],
    "coreason serve --llm ollama-": ["ollama-openai/"],
    "coreason a2a st": ["stream"],
    "coreason a2a stream pr": ["prod"],
    "coreason serve --cors": ["--cors-origin"],
    "coreason inspect --prot": ["--protocol"],
}


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "coreason" / "config.toml"
    file.parent.mkdir()
    file.write_text('[profiles.prod]\nurl = "https://a.example"\n[profiles.fast]\nllm = "m"\n')
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_commands_options_and_values_are_completed(config: dict[str, str]) -> None:
    for line, words in LINES.items():
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        env = {**config, "_COREASON_COMPLETE": "complete_bash", **asked}
        assert sorted(coreason_here(env=env).stdout.split()) == words, line


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_works_in_bash(tmp_path: Path, config: dict[str, str]) -> None:
    """One bash sources the script, and calls the function that it has registered for each line."""
    (tmp_path / "coreason.sh").write_text(coreason_here("completion", "bash").stdout)
    script = textwrap.dedent(
        f"""
        set -eu
        mkdir bin && printf '#!/bin/sh\\nexec {" ".join(COMMAND)} "$@"\\n' > bin/coreason
        chmod +x bin/coreason && PATH="$PWD/bin:$PATH"
        source ./coreason.sh
        function_of=$(complete -p coreason | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
        while IFS= read -r line; do
            read -ra COMP_WORDS <<< "$line"
            if [[ $line == *' ' ]]; then COMP_WORDS+=(''); fi
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMPREPLY=()
            $function_of coreason "${{COMP_WORDS[COMP_CWORD]}}" < /dev/null
            echo "$line:${{COMPREPLY[*]-}}"
        done
        """
    )
    done = subprocess.run(
        ["bash", "-c", script],
        input="".join(f"{line}\n" for line in IN_BASH),
        env=environment(config),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = dict(row.rsplit(":", 1) for row in done.stdout.splitlines())
    assert {line: sorted(words.split()) for line, words in found.items()} == IN_BASH


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("zsh", "compdef _coreason_completion coreason"),
        ("fish", "complete --command coreason"),
        ("powershell", "Register-ArgumentCompleter"),
    ],
)
def test_each_shell_has_its_script(shell: str, says: str) -> None:
    done = coreason_here("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout


def test_an_unknown_shell_is_refused() -> None:
    done = coreason_here("completion", "tcsh")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish', 'powershell'" in done.stderr
