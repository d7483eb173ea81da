"""The headers that pass the proxy."""

from coreason_client.inspector._cap_proxy import request_headers, response_headers


def test_only_headers_of_the_protocol_reach_the_agent() -> None:
    given = [
        ("authorization", "Bearer token"),
        ("cookie", "a=b"),
        ("origin", "http://127.0.0.1:1"),
        ("referer", "http://127.0.0.1:1/"),
        ("connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("host", "127.0.0.1:1"),
        ("content-type", "application/json"),
        ("last-event-id", "s:7"),
        ("x-request-id", "r"),
        ("accept", "text/event-stream"),
    ]
    sent = request_headers(given, {"X-Tenant": "blue"}, "key")
    assert sent.pop("User-Agent").startswith("coreason-client/")
    assert sent == {
        "accept": "text/event-stream",
        "content-type": "application/json",
        "last-event-id": "s:7",
        "x-request-id": "r",
        "X-Tenant": "blue",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer key",
    }


def test_an_agent_without_a_key_gets_none() -> None:
    sent = request_headers([("Authorization", "Bearer token")], {}, None)
    assert "authorization" not in {name.lower() for name in sent}


def test_the_agent_cannot_set_headers_that_change_what_the_browser_does() -> None:
    given = {
        "Content-Type": "text/event-stream",
        "X-Stream-ID": "s",
        "X-Request-ID": "r",
        "Retry-After": "3",
        "Set-Cookie": "a=b",
        "Location": "http://evil.example",
        "WWW-Authenticate": "Basic",
        "Access-Control-Allow-Origin": "*",
        "Content-Security-Policy": "script-src *",
        "X-Content-Type-Options": "sniff",
        "Connection": "x-drop",
        "Refresh": "0; url=http://evil.example",
    }
    assert response_headers(given) == {
        "Content-Type": "text/event-stream",
        "X-Stream-ID": "s",
        "X-Request-ID": "r",
        "Retry-After": "3",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Accel-Buffering": "no",
        "X-Content-Type-Options": "nosniff",
    }


def test_a_value_that_cannot_be_sent_is_left_out() -> None:
    assert "Retry-After" not in response_headers({"Retry-After": "\u20ac"})
