"""The search on its own, and on the documentation as it is."""

import pytest

from coreason_client.agents._documentation import Index, Section, load_pages, split_page, words


def section(title: str, text: str) -> Section:
    return Section("page.md", "Page", title, title.lower(), text)


def weighted(text: str) -> dict[str, float]:
    return dict.fromkeys(words(text), 1.0)


def test_words_that_are_one_have_one_stem() -> None:
    assert len({words(word)[0] for word in ("resume", "resumes", "resumed", "resuming")}) == 1
    assert len({words(word)[0] for word in ("retry", "Retry", "RETRY")}) == 1
    assert words("How do I use the ... ?!") == []


def test_names_are_also_their_parts() -> None:
    assert set(words("CAPConnectionError")) >= set(words("cap connection error"))
    assert set(words("max_retries")) >= set(words("retries"))
    assert set(words("HTTPServer2")) >= set(words("http server"))


def test_a_title_counts_more_than_a_mention() -> None:
    index = Index([section("Other", "a timeout, once"), section("Timeout", "how long, once more")])
    assert [hit.section.title for hit in index.search(weighted("timeout"))] == ["Timeout", "Other"]


def test_all_words_once_beat_one_word_often() -> None:
    index = Index(
        [section("A", "retry retry retry retry budget"), section("B", "cat"), section("C", "retry")]
    )
    best, *_ = index.search(weighted("retry budget"))
    assert best.section.title == "A"
    assert best.coverage == 1.0


def test_a_word_that_is_nowhere_lowers_the_coverage() -> None:
    index = Index([section("A", "retry"), section("B", "cat")])
    [hit] = index.search(weighted("retry zebra"))
    assert 0 < hit.coverage < 1


def test_nothing_is_found_in_nothing() -> None:
    assert Index([]).search({"x": 1.0}) == []
    assert Index([section("A", "b")]).search({}) == []


@pytest.fixture(scope="module")
def documentation() -> Index:
    return Index(found for page in load_pages() for found in split_page(page))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How do I resume a stream?", "docs/sse_wire_protocol.md#resuming"),
        ("How do I resume a stream?", "docs/cap.md#resume-in-another-process"),
        ("What is the retry budget?", "docs/decisions.md#7-the-retry-budget"),
        ("When is CAPStreamReset raised?", "docs/decisions.md#11-streams-are-never-spliced"),
        ("Which exit codes does the command line have?", "docs/cli.md#exit-codes"),
        (
            "How do I cut the connection with chaos?",
            "docs/cli-chat.md#cut-the-connection-kill-the-agent-coreason-chat---chaos",
        ),
    ],
)
def test_the_documentation_answers(question: str, expected: str, documentation: Index) -> None:
    hits = documentation.search(weighted(question))
    assert expected in [hit.section.uri for hit in hits]
