from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coreason_client import LLMClient
from coreason_client.testing import Recorder, Replay, fake_model
from coreason_client.testing._replay import recordings_of_test


def ask(url: str) -> str | None:
    with LLMClient("sk-secret-1", url, "m", provider="openai") as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
        return client.generate(messages)["data"]["content"]


def test_a_recording_is_made_on_request_and_replayed(tmp_path: Path) -> None:
    with fake_model("Hello", exhausted="repeat") as model:
        for failed in (True, False):
            with recordings_of_test(
                tmp_path / "recordings", "test[a/b]", records=True, has_failed=partial(bool, failed)
            ) as start:
                recorder = start(model.url, times=False)
                assert isinstance(recorder, Recorder)
                assert ask(recorder.url) == "Hello"
            assert (tmp_path / "recordings").exists() is not failed
    assert [file.name for file in (tmp_path / "recordings").iterdir()] == ["test-a-b-.jsonl"]
    with recordings_of_test(
        tmp_path / "recordings", "test[a/b]", records=False, has_failed=lambda: False
    ) as start:
        service = start("http://gone.invalid")
        assert isinstance(service, Replay)
        assert ask(service.url) == "Hello"


def test_a_test_without_a_recording_says_what_to_do(tmp_path: Path) -> None:
    with recordings_of_test(tmp_path, "t", records=False, has_failed=lambda: False) as start:
        with pytest.raises(FileNotFoundError, match=r"t.jsonl: run .* with --coreason-record"):
            start("http://gone.invalid")
        with pytest.raises(FileNotFoundError, match=r"other.jsonl"):
            start("http://gone.invalid", "other")
