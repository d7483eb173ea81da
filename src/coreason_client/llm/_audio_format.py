"""The names of audio formats in messages. Pure."""

__all__ = ["audio_format"]

# Those that differ from the names of media types.
_NAMES = {"mpeg": "mp3", "x-wav": "wav", "vnd.wave": "wav", "mp4": "m4a", "x-m4a": "m4a"}


def audio_format(media_type: str) -> str:
    """Return the `format` of an `input_audio` part for a media type such as `audio/mpeg`."""
    subtype = media_type.partition("/")[2]
    return _NAMES.get(subtype, subtype.removeprefix("x-"))
