"""The names of audio formats."""

from coreason_client.llm._call import audio_format
from tests.each import each


@each(
    ("media_type", "name"),
    [("audio/mpeg", "mp3"), ("audio/x-wav", "wav"), ("audio/wav", "wav"), ("audio/x-flac", "flac")],
)
def test_a_format_has_the_name_that_providers_use(media_type: str, name: str) -> None:
    assert audio_format(media_type) == name
