"""Names whose values are secrets, and headers whose representation contains no secrets."""

import re
from collections.abc import Iterable, Mapping

from .._secret import header_secrets

MASK = "***"
"""Stands for a secret that was removed."""

# Compared without case, hyphens and underscores: `access_token`, `accessToken` and `X-Access-Token`
# are one name. `key` and `token` alone are too common in answers to be secrets everywhere.
_SECRET = re.compile(
    r"(?:x|proxy|set)?(?:"
    r"authorization|cookie|credential|password|passwd|pwd|passphrase|secret|signature|sig|"
    r".*(?:apikey|accesskey|accesskeyid|secretkey|privatekey|sharedkey|signingkey|subscriptionkey|"
    r"authkey|accesstoken|refreshtoken|idtoken|authtoken|sessiontoken|securitytoken|bearertoken|"
    r"csrftoken|xsrftoken|pushtoken|notificationtoken|clientsecret|secret|password|"
    r"amzcredential|amzsignature|clientassertion|subjecttoken|actortoken)"
    r")s?"
)


def is_secret_name(name: str) -> bool:
    """Return True if a header, a query parameter or a field of this name is a secret."""
    return _SECRET.fullmatch(re.sub(r"[-_.\s]", "", name.lower())) is not None


def is_secret_header(name: str, value: str) -> bool:
    """Return True if a header is a secret here, or one that the clients redact."""
    return is_secret_name(name) or any(True for _ in header_secrets({name: value}))


class HiddenHeaders(dict[str, str]):
    """Headers by name in lower case; `repr` masks credentials, so a failed test shows none.

    The values of a name that occurs several times are joined with a comma.
    """

    def __init__(self, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        super().__init__()
        for name, value in headers.items() if isinstance(headers, Mapping) else headers:
            key = name.lower()
            self[key] = f"{self[key]}, {value}" if key in self else value

    def __repr__(self) -> str:
        shown = {
            name: MASK if is_secret_header(name, value) else value for name, value in self.items()
        }
        return repr(shown)
