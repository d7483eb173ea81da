"""Build the documentation site: `make docs`. It needs no network, and a broken link fails it."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.check_site import broken_links, fetched_elsewhere
from scripts.site_texts import full_text, llms_index, nav_pages, page_markdown

ROOT = Path(__file__).parent.parent


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads the configuration without its Python objects."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def configuration() -> dict[str, Any]:
    """Return the content of mkdocs.yml."""
    found: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)  # noqa: S506
    return found


def write_texts(site: Path) -> None:
    """Write `llms.txt`, `llms-full.txt` and the Markdown of each page."""
    settings = configuration()
    pages = []
    for page in nav_pages(settings["nav"]):
        source = ROOT / "docs" / page.path
        if source.is_file():
            text = page_markdown(source.read_text(encoding="utf-8"))
            target = site / page.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            pages.append((page, text))
    about = " ".join(settings["site_description"].split())
    index = llms_index(settings["site_name"], about, pages)
    (site / "llms.txt").write_text(index, encoding="utf-8")
    (site / "llms-full.txt").write_text(full_text(pages), encoding="utf-8")


def build() -> Path:
    """Build the site, and return its folder.

    Raises:
        SystemExit: Zensical failed, a link leads nowhere, or a page loads something from elsewhere.
    """
    site = ROOT / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--clean", "--strict"]
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(_without_tracebacks(done.stdout + done.stderr))
    write_texts(site)
    _rewrite(site / "404.html", relative_links)
    _rewrite(site / "index.html", with_recording)
    if found := [*broken_links(site), *fetched_elsewhere(site)]:
        raise SystemExit("\n".join(found))
    return site


def relative_links(html: str) -> str:
    """Return a page at the root of the site with relative links: the site may be in any folder."""
    html = re.sub(r'(\b(?:href|src)=")/(?=")', r"\1index.html", html)
    html = re.sub(r'(\b(?:href|src)=")/(?!/)', r"\1", html)
    html = html.replace('new URL("/",location)', 'new URL(".",location)')
    return html.replace('"base":"/"', '"base":"."').replace('"search":"/', '"search":"')


def with_recording(html: str) -> str:
    """Return the first page with its recording inside: its text can then be selected."""
    drawn = (ROOT / "docs" / "images" / "chat.svg").read_text(encoding="utf-8")
    return re.sub(r'<img [^>]*src="images/chat\.svg"[^>]*>', lambda _: drawn, html)


def _rewrite(page: Path, change: Callable[[str], str]) -> None:
    page.write_text(change(page.read_text(encoding="utf-8")), encoding="utf-8")


def _without_tracebacks(output: str) -> str:
    """Return what Zensical reports: its tracebacks are about itself, not about a page."""
    return re.sub(r"^Traceback .*\n(?: .*\n|\n)*", "", output, flags=re.MULTILINE)


def main() -> None:
    begun = time.monotonic()
    site = build()
    pages = len([*site.rglob("*.html")])
    took = time.monotonic() - begun
    sys.stdout.write(f"Built {pages} pages in {took:.1f} s: {site / 'index.html'}\n")


if __name__ == "__main__":
    main()
