"""The replacements of the addresses and ports that the pages print."""

import re

from tests.ports import free_port

__all__ = ["DEFAULT_PORT", "Addresses"]

DEFAULT_PORT = 8000
_PORT = re.compile(
    r"((?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1\]|(?<=\s)):|\bport[ =]|\bPORT=|\blisten )"
    r"(\d{4,5})\b"
)


class Addresses:
    """Replaces what a page prints by what is real, and back in what programs print."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known
        self._ports: dict[int, int] = {}

    def port(self, printed: int) -> int:
        """Return the port that stands for a printed one."""
        if printed in self._ports.values():
            return printed
        return self._ports.setdefault(printed, free_port())

    def set_port(self, port: int, real: int) -> None:
        """Let a port of the pages, or the one that stands for it, be another real one."""
        printed = next((one for one, other in self._ports.items() if other == port), port)
        self._ports[printed] = real

    def ports_in(self, code: str) -> list[int]:
        """Return the ports that occur in code, printed or real."""
        return [int(port) for _, port in _PORT.findall(code)]

    def real(self, code: str) -> str:
        for printed, address in self._known.items():
            # Not agent.example.com or another port, which are other ones.
            code = re.sub(rf"{re.escape(printed)}(?![\w.:-]\w)", address, code)
        known = {address.rpartition(":")[2] for address in self._known.values()}

        def replaced(found: re.Match[str]) -> str:
            return found[0] if found[2] in known else f"{found[1]}{self.port(int(found[2]))}"

        return _PORT.sub(replaced, code)

    def printed(self, output: str) -> str:
        for printed, address in self._known.items():
            output = output.replace(address, printed)
        for shown, real in self._ports.items():
            output = re.sub(rf"(?<!\d){real}(?!\d)", str(shown), output)
        return output
