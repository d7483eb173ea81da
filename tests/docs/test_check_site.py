"""Broken links and foreign files of a site are found, and nothing else is."""

from pathlib import Path

from scripts.check_site import broken_links, fetched_elsewhere


def write(site: Path, **pages: str) -> None:
    for name, text in pages.items():
        (site / name.replace("_", ".")).write_text(text)


def test_a_link_must_lead_to_a_file_and_to_a_place_in_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<a href="../a.html#one">up</a>')
    good = (
        '<p id="one"><a name="two"><a href="#one"><a href="b.html#%C3%BC"><a href="/b.html">'
        '<a href="sub/"><a href="sub"><a href="https://x.example/#y"><a href="mailto:a@x.example">'
        '<a href="#two"><img src="i.svg"><a href="i.svg#layer">'
    )
    bad = '<p id="ü"><a href="#no"><a href="a.html#no"><a href="c.html"><script src="j.js">'
    write(tmp_path, a_html=good, b_html=bad, i_svg="<svg/>")
    assert [*broken_links(tmp_path)] == [
        "b.html: #no leads to no place in b.html",
        "b.html: a.html#no leads to no place in a.html",
        "b.html: c.html leads to no file",
        "b.html: j.js leads to no file",
    ]


def test_what_a_browser_would_load_from_elsewhere_is_found(tmp_path: Path) -> None:
    good = (
        '<a href="https://x.example"><link rel="canonical" href="https://x.example/a">'
        '<link rel="stylesheet" href="a.css"><script>"https://x.example"</script>'
        '<svg xmlns="http://www.w3.org/2000/svg"></svg><img src="data:,">'
    )
    bad = (
        '<script src="//x.example/1.js"></script><link rel="preconnect" href="https://x.example">'
        '<img src="HTTPS://x.example/2.png"><style>p { background: url("//x.example/3") }</style>'
        '<pre class="mermaid"><iframe src="http://x.example/4">'
    )
    css = "@import 'https://x.example/5.css'; a { background: url(//x.example/6) url(b.png) }"
    write(tmp_path, a_html=good, b_html=bad, c_css=css)
    assert [*fetched_elsewhere(tmp_path)] == [
        "b.html loads //x.example/1.js",
        "b.html loads https://x.example",
        "b.html loads HTTPS://x.example/2.png",
        "b.html loads http://x.example/4",
        "b.html has 'class=\"mermaid', for which the theme loads a script from elsewhere",
        "b.html loads //x.example/3",
        "c.css loads https://x.example/5.css",
        "c.css loads //x.example/6",
    ]
