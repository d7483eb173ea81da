from coreason_client.testing._secret_names import HiddenHeaders


def test_the_values_can_be_read_and_are_not_shown() -> None:
    headers = HiddenHeaders([("Authorization", "Bearer abc"), ("Accept", "*/*"), ("api-key", "k")])
    assert headers["authorization"] == "Bearer abc"
    assert repr(headers) == "{'authorization': '***', 'accept': '*/*', 'api-key': '***'}"
    assert HiddenHeaders({"X-Y": "z"}) == {"x-y": "z"}
    assert HiddenHeaders([("X-Y", "1"), ("x-y", "2")]) == {"x-y": "1, 2"}
    assert HiddenHeaders() == {}
