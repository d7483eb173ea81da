"""The static files: which are served, as what, and that they ask nothing of other origins."""

import re

from coreason_client.server.page._routes import INDEX, _suffix, load_files


def test_the_files_have_a_type_and_a_tag() -> None:
    files = load_files()
    assert {INDEX, "page.css", "page.js"} <= files.keys()
    assert files[INDEX].media_type == "text/html; charset=utf-8"
    assert files["page.css"].media_type == "text/css; charset=utf-8"
    assert files["page.js"].media_type == "text/javascript; charset=utf-8"
    assert len({file.etag for file in files.values()}) == len(files)


def test_other_types_are_not_served() -> None:
    assert [_suffix(name) for name in ("a.js", "a.py", "a.js.bak", ".js", "js", "")] == [
        *(".js", "", "", "", "", ""),
    ]


def test_every_file_that_the_index_names_is_served_and_relative() -> None:
    index = load_files()[INDEX].body.decode()
    named = re.findall(r'(?:href|src)="(?!data:|#)([^"]*)"', index)
    assert named
    for name in named:
        assert name.removeprefix("page/") in load_files(), name
        assert name.startswith("page/")


def test_the_index_has_no_inline_script_or_style() -> None:
    index = load_files()[INDEX].body.decode()
    assert re.findall(r"<script(?![^>]* src=)", index) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", index) == []
