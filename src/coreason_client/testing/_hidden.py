"""Headers and queries of received requests, whose representations contain no secrets."""

from collections.abc import Iterable, Mapping

from .._secret import header_secrets
from ._recording._secret_names import is_secret_name

__all__ = ["HiddenHeaders"]

_MASK = "***"


class HiddenHeaders(dict[str, str]):
    """Headers by name in lower case; `repr` masks credentials, so a failed test shows none."""

    def __init__(self, headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        super().__init__({name.lower(): value for name, value in pairs})

    def __repr__(self) -> str:
        return repr({name: _MASK if _is_secret(name, self[name]) else self[name] for name in self})


def _is_secret(name: str, value: str) -> bool:
    return is_secret_name(name) or any(True for _ in header_secrets({name: value}))
