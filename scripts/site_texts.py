"""The texts of the site for programs: `llms.txt`, and each page as Markdown beside its HTML."""

import importlib
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

__all__ = ["NavPage", "full_text", "llms_index", "nav_pages", "page_markdown", "summary"]

_COMMENT = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE)
_META = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^::: ([\w.]+)\n(?:(?: {4}.*)?\n)*?(?=\S|\Z)", re.MULTILINE)
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r"(.+?\.)(?:\s|$)", re.DOTALL)


@dataclass(frozen=True)
class NavPage:
    """A page of the navigation: the section it is in, its title there, and its path in docs/."""

    section: str
    title: str
    path: str


def nav_pages(nav: list[Any], section: str = "") -> Iterator[NavPage]:
    """Yield the pages of the navigation in their order."""
    for entry in nav:
        [(title, value)] = entry.items()
        if isinstance(value, str):
            yield NavPage(section, title, value)
        else:
            yield from nav_pages(value, f"{section}: {title}" if section else title)


def summary(text: str) -> str:
    """Return the first sentence of a page, without markup; empty if it has none."""
    plain = _FENCED.sub("", _COMMENT.sub("", text))
    for paragraph in re.split(r"\n\s*\n", plain):
        start = paragraph.lstrip()
        if start and not start.startswith(
            ("#", "|", "!", ":::", "* ", "- ", "1.", "===", ">", "<")
        ):
            words = " ".join(_LINK.sub(r"\1", start).split())
            found = _SENTENCE.match(words)
            return (found[1] if found else words).rstrip(":")
    return ""


def llms_index(name: str, about: str, pages: list[tuple[NavPage, str]]) -> str:
    """Return `llms.txt`: the pages by section, each with its first sentence."""
    lines = [f"# {name}", "", f"> {about}", ""]
    section = None
    for page, text in pages:
        if page.section != section:
            section = page.section
            lines += ["", f"## {section or 'More'}", ""]
        lines.append(f"- [{page.title}]({page.path}): {summary(text) or page.title}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def full_text(pages: list[tuple[NavPage, str]]) -> str:
    """Return `llms-full.txt`: all pages one after the other, each with its address above."""
    return "\n\n".join(f"<!-- {page.path} -->\n\n{text.strip()}" for page, text in pages) + "\n"


def page_markdown(text: str) -> str:
    """Return a page as a program should read it: without comments, and with its reference entries.

    Raises:
        AttributeError: an entry names something that does not exist.
        ImportError: the same, for a module.
    """
    text = _COMMENT.sub("", _META.sub("", text))
    return _ENTRY.sub(lambda found: _entry(found[1]), text)


def _entry(name: str) -> str:
    value = _resolve(name)
    lines = [f"### `{name}`", "", *_described(name.rpartition(".")[2], value)]
    if inspect.isclass(value):
        for method, function in inspect.getmembers(value):
            if not method.startswith("_") and _is_own(value, method):
                lines += [f"#### `{method}`", "", *_described(method, function)]
    return "\n".join(lines).rstrip() + "\n\n"


def _is_own(value: type, name: str) -> bool:
    """Return True if a class has a documented member from this project."""
    for base in value.__mro__:
        if name in vars(base):
            ours = base.__module__.startswith("coreason")
            return ours and bool(getattr(vars(base)[name], "__doc__", None))
    return False


def _described(name: str, value: Any) -> list[str]:
    lines = []
    if callable(value):
        with suppress(TypeError, ValueError):  # it has no signature
            lines = ["```python", f"{name}{inspect.signature(value)}", "```", ""]
    text = inspect.getdoc(value) if callable(value) or isinstance(value, property) else None
    return [*lines, *((text, "") if text else ())]


def _resolve(name: str) -> Any:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ImportError(f"there is no module of {name}")
