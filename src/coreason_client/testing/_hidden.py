"""Headers of received requests, whose representation contains no secrets."""

from collections.abc import Iterable, Mapping

from ._recording._secret_names import MASK, is_secret_header

__all__ = ["HiddenHeaders"]


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
