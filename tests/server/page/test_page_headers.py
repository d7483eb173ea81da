"""The headers of the page: the policy is the one that was decided, word for word."""

from coreason_client.server.page._routes import CONTENT_SECURITY_POLICY, PAGE_HEADERS


def test_the_policy() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' https: data:; media-src https:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def test_nothing_is_guessed_and_nothing_is_told_to_other_sites() -> None:
    assert PAGE_HEADERS["X-Content-Type-Options"] == "nosniff"
    assert PAGE_HEADERS["Referrer-Policy"] == "no-referrer"
    assert PAGE_HEADERS["Cross-Origin-Opener-Policy"] == "same-origin"
    assert PAGE_HEADERS["Cross-Origin-Resource-Policy"] == "same-origin"
