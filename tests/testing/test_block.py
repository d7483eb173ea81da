"""A server on loopback serves within its block, once at a time, and reports problems at its end."""

import asyncio
import threading

import pytest

from coreason_client.testing._block import LoopbackBlock, report
from coreason_client.testing._loopback import HTTPRequest, LoopbackServer, ResponseWriter


class Empty(LoopbackBlock):
    def __init__(self) -> None:
        super().__init__("the test block", "with Empty() as block:")
        self.ends: list[BaseException | None] = []

    @property
    def url(self) -> str:
        return self._origin

    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        await response.whole(200, [], b"")

    def _finish(self, server: LoopbackServer, error: BaseException | None) -> None:
        self.ends.append(error)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "test-block" in thread.name]


def test_it_serves_only_within_its_block() -> None:
    block = Empty()
    with pytest.raises(RuntimeError, match="runs only within `with Empty"):
        _ = block.url
    for _ in range(2):
        with block:
            assert block.url.startswith("http://127.0.0.1:")
            assert threads() == ["coreason-test-block"]
            with pytest.raises(RuntimeError, match="the test block runs already"):
                block.__enter__()
        assert threads() == []
    block.__exit__(None, None, None)
    assert block.ends == [None, None]


def test_it_knows_the_error_that_ends_an_async_block() -> None:
    block = Empty()

    async def main() -> None:
        async with block:
            raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        asyncio.run(main())
    assert block.ends == [raised.value]


def test_problems_are_raised_or_added_to_the_error_of_the_block() -> None:
    report([], None)
    with pytest.raises(AssertionError, match="one\ntwo"):
        report(["one", "two"], None)
    error = KeyError("mine")
    report(["one"], error)
    assert error.__notes__ == ["one"]
