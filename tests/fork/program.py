"""A program that forks; run as `python -m tests.fork.program SCENARIO FAMILIES URL CONTROL`.

The scenario runs with each family in turn, because starting the program takes longer than a
scenario. Every failed check is an exception: of the program, or of a child, whose exit code is
checked.
"""

import asyncio
import gc
import multiprocessing
import os
import sys
import threading
import traceback
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from coreason_client import A2AClient, AsyncA2AClient, AsyncCAPClient, AsyncLLMClient, CAPClient
from coreason_client.a2a import A2AConnectionError
from coreason_client.cap.errors import CAPConnectionError
from coreason_client.llm import LLMConnectionError, _cost

LIMIT = 20.0
LIVE = f"live-{os.getpid()}"
CONNECTION_ERRORS = (CAPConnectionError, A2AConnectionError, LLMConnectionError)


# The same three acts in each family: ask for a word, stream a word, close.


class Cap:
    def __init__(self, url: str) -> None:
        self.client = CAPClient(url, "a-key-for-tests", max_retries=0)

    def ask(self, word: str) -> str:
        return "".join(self.client.chat(word))

    def stream(self, word: str) -> Any:
        return self.client.chat(word)

    def sender(self) -> Any:
        return self.client._sender

    close = property(lambda self: self.client.close)

    @staticmethod
    def text(item: Any) -> str:
        return str(item)


class A2A(Cap):
    def __init__(self, url: str) -> None:
        self.client: Any = A2AClient(f"{url}/rpc", max_retries=0)

    def ask(self, word: str) -> str:
        said: str = self.client.send_message(word).text
        return f"{said} begins, {said} ends"

    def stream(self, word: str) -> Any:
        return self.client.send_message_stream(word)

    def sender(self) -> Any:
        return self.client.transport._sender

    @staticmethod
    def text(item: Any) -> str:
        artifact = getattr(item, "artifact", None)
        return "" if artifact is None else "".join(part.text for part in artifact.parts)


class AsyncCap:
    def __init__(self, url: str) -> None:
        self.client: Any = AsyncCAPClient(url, "a-key-for-tests", max_retries=0)

    async def ask(self, word: str) -> str:
        return "".join([text async for text in self.client.chat(word)])

    def stream(self, word: str) -> Any:
        return self.client.chat(word)

    async def aclose(self) -> None:
        await self.client.aclose()

    @staticmethod
    def text(item: Any) -> str:
        return str(item)


class AsyncA2A(AsyncCap):
    def __init__(self, url: str) -> None:
        self.client = AsyncA2AClient(f"{url}/rpc", max_retries=0)

    async def ask(self, word: str) -> str:
        said = (await self.client.send_message(word)).text
        return f"{said} begins, {said} ends"

    def stream(self, word: str) -> Any:
        return self.client.send_message_stream(word)

    @staticmethod
    def text(item: Any) -> str:
        return A2A.text(item)


class AsyncLLM(AsyncCap):
    def __init__(self, url: str) -> None:
        self.client = AsyncLLMClient("a-key-for-tests", url, max_retries=0, provider="openai")

    async def ask(self, word: str) -> str:
        response = await self.client.generate([{"role": "user", "content": word}], "m")
        said = response["data"]["content"]
        return f"{said} begins, {said} ends"

    def stream(self, word: str) -> Any:
        return self.client.stream([{"role": "user", "content": word}], "m")

    @staticmethod
    def text(item: Any) -> str:
        return getattr(item, "text", None) or ""


SYNC: dict[str, Callable[[str], Any]] = {"cap": Cap, "a2a": A2A}
ASYNC: dict[str, Callable[[str], Any]] = {"cap": AsyncCap, "a2a": AsyncA2A, "llm": AsyncLLM}


def whole(word: str) -> str:
    """Return the complete text for a word."""
    return f"{word} begins, {word} ends"


def release(control: str, word: str) -> None:
    """Have the server send the second half."""
    _post(f"{control}/release/{word}")


def wait_for_end(control: str, word: str) -> None:
    """Wait until the server has ended the response, for which it needs to see that we left."""
    _post(f"{control}/ended/{word}")


def _post(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=LIMIT).close()


def check(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def child_succeeds(work: Callable[[], None], *, ordinary_end: bool) -> None:
    """Run work in a forked child and wait for it; an ordinary end runs all finalisers."""
    pid = os.fork()
    if pid:
        check(os.waitpid(pid, 0)[1], 0)
        return
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as if it were the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        if not ordinary_end or code:
            os._exit(code)
    gc.collect()
    sys.exit(0)


# A live stream and an idle connection in the parent; the child asks, and closes everything.


def sync_stream(family: str, url: str, control: str) -> None:
    talk = SYNC[family](url)
    stream = talk.stream(LIVE)
    check(read_until(stream, talk, "begins"), f"{LIVE} begins")
    check(talk.ask("word-parent"), whole("word-parent"))

    def child() -> None:
        check(talk.ask("word-child"), whole("word-child"))
        fails_for_another_process(lambda: next(stream))
        stream.close()
        talk.close()
        gc.collect()

    child_succeeds(child, ordinary_end=True)
    release(control, LIVE)
    check("".join(map(talk.text, stream)), f", {LIVE} ends")
    check(talk.ask("word-last"), whole("word-last"))
    talk.close()


def read_until(stream: Iterator[Any], talk: Any, end: str) -> str:
    text = ""
    while not text.endswith(end):
        text += talk.text(next(stream))
    return text


def fails_for_another_process(act: Callable[[], object]) -> None:
    try:
        found = act()
    except CONNECTION_ERRORS as error:
        if "process" not in str(error):
            raise
    else:
        raise AssertionError(f"the stream of the parent could be read: {found!r}")


async def async_stream(family: str, url: str, control: str) -> None:
    talk = ASYNC[family](url)
    stream = talk.stream(LIVE)
    check(await read_until_async(stream, talk, "begins"), f"{LIVE} begins")
    check(await talk.ask("word-parent"), whole("word-parent"))

    # From within the running loop, as multiprocessing does it.
    context = multiprocessing.get_context("fork")
    child = context.Process(target=lambda: asyncio.run(async_child(talk, stream)))
    child.start()
    await asyncio.to_thread(child.join)
    check(child.exitcode, 0)

    release(control, LIVE)
    check("".join([talk.text(item) async for item in stream]), f", {LIVE} ends")
    check(await talk.ask("word-last"), whole("word-last"))
    await talk.aclose()


async def read_until_async(stream: AsyncIterator[Any], talk: Any, end: str) -> str:
    text = ""
    while not text.endswith(end):
        text += talk.text(await anext(stream))
    return text


async def async_child(talk: Any, stream: Any) -> None:
    check(await talk.ask("word-child"), whole("word-child"))
    try:
        found = await anext(stream)
    except CONNECTION_ERRORS as error:
        if "process" not in str(error):
            raise
    else:
        raise AssertionError(f"the stream of the parent could be read: {found!r}")
    await stream.aclose()
    await talk.aclose()
    gc.collect()


def loop_in_thread(family: str, url: str, control: str) -> None:
    """Keep the loop in a thread of the parent; the child ends in the ordinary way."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(LIMIT)

    talk = ASYNC[family](url)
    stream = talk.stream(LIVE)
    check(there(read_until_async(stream, talk, "begins")), f"{LIVE} begins")
    check(there(talk.ask("word-parent")), whole("word-parent"))

    def child() -> None:
        asyncio.run(async_child(talk, stream))

    child_succeeds(child, ordinary_end=True)

    async def rest() -> str:
        return "".join([talk.text(item) async for item in stream])

    release(control, LIVE)
    check(there(rest()), f", {LIVE} ends")
    check(there(talk.ask("word-last")), whole("word-last"))
    there(talk.aclose())
    there(loop.shutdown_asyncgens())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def idle_loop(family: str, url: str, control: str) -> None:
    """Fork while the loop of the connections does not run, so that nothing else keeps them."""
    with asyncio.Runner() as runner:
        talk = ASYNC[family](url)
        check(runner.run(talk.ask("word-parent")), whole("word-parent"))

        def child() -> None:
            check(asyncio.run(talk.ask("word-child")), whole("word-child"))
            gc.collect()

        child_succeeds(child, ordinary_end=False)
        check(runner.run(talk.ask("word-last")), whole("word-last"))
        runner.run(talk.aclose())


# Many processes at once, each with its own words.


def sync_rounds(family: str, url: str, control: str) -> None:
    talk = SYNC[family](url)
    for number in range(3):
        talk.ask(f"word-warm-{number}")
    children = [_fork(lambda: ask_all(talk, os.getpid())) for _ in range(4)]
    ask_all(talk, os.getpid())
    check(_exit_codes(children), [0] * 4)
    talk.close()


def ask_all(talk: Any, who: int) -> None:
    for number in range(12):
        word = f"word-{who}-{number}"
        check(talk.ask(word), whole(word))


async def async_rounds(family: str, url: str, control: str) -> None:
    talk = ASYNC[family](url)
    await asyncio.gather(*(talk.ask(f"word-warm-{number}") for number in range(3)))
    children = [
        _fork(lambda: asyncio.run(ask_all_async(talk, os.getpid(), close=True))) for _ in range(4)
    ]
    await ask_all_async(talk, os.getpid(), close=False)
    check(_exit_codes(children), [0] * 4)
    await talk.aclose()


async def ask_all_async(talk: Any, who: int, *, close: bool) -> None:
    for number in range(12):
        words = [f"word-{who}-{number}-{part}" for part in range(3)]
        found = await asyncio.gather(*(talk.ask(word) for word in words))
        check(found, [whole(word) for word in words])
    if close:
        await talk.aclose()


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child must not go on as if it were the parent
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _exit_codes(children: list[int]) -> list[int]:
    return [os.waitpid(child, 0)[1] for child in children]


# Locks that were held when the process forked.


def locks(family: str, url: str, control: str) -> None:
    talk = SYNC[family](url)
    check(talk.ask("word-parent"), whole("word-parent"))
    sender = talk.sender()

    def child() -> None:
        check(talk.ask("word-child"), whole("word-child"))
        with suppress(*CONNECTION_ERRORS):
            sender.sleep(0.001)
        talk.close()

    with sender._clients._lock, sender._closed._cond:
        child_succeeds(child, ordinary_end=True)
    check(talk.ask("word-last"), whole("word-last"))
    talk.close()


# A connection ends when the parent ends it, although a child that inherited it still runs.


async def end(family: str, url: str, control: str) -> None:
    talk = ASYNC[family](url)
    stream = talk.stream(LIVE)
    check(await read_until_async(stream, talk, "begins"), f"{LIVE} begins")
    reader, writer = os.pipe()
    child = _fork(lambda: check(os.read(reader, 1), b"x"))
    await stream.aclose()
    await asyncio.to_thread(wait_for_end, control, LIVE)
    os.write(writer, b"x")
    check(_exit_codes([child]), [0])
    await talk.aclose()


# The price table is loaded in a thread: a child must not inherit half of an import.


def prices(family: str, url: str, control: str) -> None:
    loading, loaded = threading.Event(), threading.Event()

    def load() -> None:
        loading.set()
        if not loaded.wait(0.2):  # longer than a fork takes
            loaded.set()

    _cost._load_table = load
    _cost.load_prices()
    check(loading.wait(LIMIT), True)
    child_succeeds(lambda: check(loaded.is_set(), True), ordinary_end=True)


# A client that was closed stays closed in a child.


def closed(family: str, url: str, control: str) -> None:
    talk = SYNC[family](url)
    check(talk.ask("word-parent"), whole("word-parent"))
    talk.close()

    def child() -> None:
        try:
            talk.ask("word-child")
        except CONNECTION_ERRORS:
            return
        raise AssertionError("a closed client was used")

    child_succeeds(child, ordinary_end=True)


SCENARIOS: dict[str, Callable[[str, str, str], Any]] = {
    "sync-stream": sync_stream,
    "async-stream": async_stream,
    "loop-in-thread": loop_in_thread,
    "idle-loop": idle_loop,
    "sync-rounds": sync_rounds,
    "async-rounds": async_rounds,
    "locks": locks,
    "closed": closed,
    "end": end,
    "prices": prices,
}

if __name__ == "__main__":
    scenario, families, *addresses = sys.argv[1:]
    for name in families.split(","):
        LIVE = f"live-{os.getpid()}-{name}"
        print(scenario, name, file=sys.stderr)
        outcome = SCENARIOS[scenario](name, *addresses)
        if outcome is not None:
            asyncio.run(outcome)
        gc.collect()
