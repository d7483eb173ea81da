"""Content other than text, as Markdown, for protocols that have no place for it. No I/O."""

from typing import Any

from pydantic_core import to_json

from ._fold import Artifact, Markdown, Media

__all__ = ["as_markdown"]


def as_markdown(event: Markdown | Media | Artifact) -> str:
    """Return Markdown for content that is not text, an empty string if it has none.

    A file whose bytes are in the packet is named, without its bytes.
    """
    match event:
        case Markdown(text):
            return text
        case Media(items):
            return "\n\n".join(_link(i["url"], i["mime_type"], i.get("alt_text")) for i in items)
        case Artifact(data):
            parts = [shown for part in data["parts"] if (shown := _part(part))]
            title = [] if data.get("append") else [f"**{_escaped(data.get('name') or 'Result')}**"]
            return "\n\n".join([*title, *parts])


def _part(part: dict[str, Any]) -> str:
    name, media_type = part.get("filename"), part.get("mediaType") or ""
    if isinstance(text := part.get("text"), str):
        return text
    if isinstance(url := part.get("url"), str):
        return _link(url, media_type, name)
    if "data" in part:
        return f"```json\n{to_json(part['data'], indent=2).decode()}\n```"
    return f"*{_escaped(name or 'file')}*" if "raw" in part else ""


def _link(url: str, media_type: str, name: str | None) -> str:
    target = url.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("\n", "")
    is_image = media_type.startswith("image/")
    return f"{'!' if is_image else ''}[{_escaped(name or url)}]({target})"


def _escaped(name: str) -> str:
    return " ".join(name.replace("[", "(").replace("]", ")").replace("*", "").split())
