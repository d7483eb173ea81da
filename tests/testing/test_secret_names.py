from coreason_client._secret import Secret
from coreason_client.testing._secret_names import is_secret_header, is_secret_name
from tests.each import each


@each(
    "name",
    [
        *("Authorization", "proxy-authorization", "cookie", "Set-Cookie", "x-api-key", "apiKey"),
        *("OPENAI_API_KEY", "access_token", "refreshToken", "X-Amz-Security-Token", "id_token"),
        *("client_secret", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "X-Amz-Signature", "sig"),
        *("private_key", "credentials", "secret", "x-goog-api-key", "Ocp-Apim-Subscription-Key"),
        *("api_keys", "secrets", "passwords", "accessTokens", "pwd"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@each(
    "name",
    [
        *("key", "token", "max_tokens", "prompt_tokens", "total_tokens", "keys", "tokens"),
        *("content-type", "x-request-id", "secretary", "stream_id", "key_id", "authorized"),
        *("api_key_name", "prompt_cache_key", "idempotency-key", "signature_algorithm"),
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_headers_that_clients_redact_are_secrets_too() -> None:
    assert is_secret_header("x-token", "t")
    assert is_secret_header("x-session", Secret("s"))
    assert not is_secret_header("x-session", "s")
