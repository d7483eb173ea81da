"""The chat of `examples/react_chat`, built from the packages of npm and used in Chromium."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from examples.react_chat import agent as example
from tests.docs.blocks import parse
from tests.docs.terminals import Player
from tests.installed import npm_package
from tests.ports import free_port
from tests.server.openai.cutting import cutting
from tests.server.program import PATIENCE, Program

from . import tools
from .conftest import TIMEOUT, Tabs
from .test_access import violations

FOLDER = Path(example.__file__).parent
TUTORIAL = Path(__file__).parents[2] / "docs/tutorials/react.md"
FILES = (
    *("agent.py", "chat.jsx", "package.json"),
    *("public/index.html", "public/style.css"),
)
PATH = os.environ.get("PATH", os.defpath)
RUN = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
QUESTION = "Plan a trip to Kyoto"
BEFORE = (
    "ThoughtsI look up Kyoto first."
    'look_up: output-available{"name":"Kyoto"} {"days":4}'
    "Source: A guide to Kyoto"
)
DAYS = [f"Day {day}: walk through Kyoto and look at everything. \n" for day in range(1, 5)]
ANSWER = BEFORE + "".join(DAYS)
PAUSE_AT = 14  # words: in the middle of the second day


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Variables with which the packages of the example are found, as after `npm install`."""
    tools.browser()  # before anything is installed
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    wanted = {**package["dependencies"], **package["devDependencies"], "zod": "4.6.7"}
    modules = npm_package(*(f"{name}@{wanted[name]}" for name in wanted)) / "node_modules"
    return {
        "PATH": os.pathsep.join([f"{modules}/.bin", str(Path(sys.executable).parent), PATH]),
        "NODE_PATH": str(modules),
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The folder of the example after `npm run build`."""
    folder = tmp_path_factory.mktemp("react") / "chat"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules", "chat.js"))
    subprocess.run(
        ["npm", "run", "build"],
        cwd=folder,
        env={**os.environ, **environment},
        check=True,
        timeout=60,
        capture_output=True,
    )
    return folder


class Site:
    """The example with its own pauses: `gate` lets an answer go on after its first words."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.gate = threading.Event()
        self.gate.set()
        self.runs: list[str] = []
        self.ended = threading.Semaphore(0)

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Run the agent of the example."""
        self.runs.append(stream.question)
        self._words = 0
        try:
            await example.assist(request, stream)
        finally:
            self.ended.release()

    async def sleep(self, seconds: float) -> None:
        """Stand for the sleep of the agent."""
        self._words += 1
        if self._words == PAUSE_AT:
            await asyncio.to_thread(self.gate.wait, PATIENCE)

    def until_ended(self) -> None:
        """Wait until an agent has ended."""
        assert self.ended.acquire(timeout=PATIENCE)


@pytest.fixture
def site(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site()
    monkeypatch.setattr(example, "asyncio", SimpleNamespace(sleep=site.sleep))
    agent = AgentApp(site, ai_sdk=True, drain_timeout=0.0)
    page = StaticFiles(directory=built / "public", html=True)
    routes = [Mount("/agent", agent), Mount("/", page)]
    with running(Starlette(lifespan=agent.lifespan, routes=routes)) as server:
        site.url = server.url
        try:
            yield site
        finally:
            site.gate.set()


def ask(page: Page, question: str) -> None:
    page.get_by_role("textbox").fill(question)
    page.keyboard.press("Enter")


def ready(page: Page) -> None:
    expect(page.get_by_role("button", name="Regenerate")).to_be_visible(timeout=TIMEOUT)


def half(page: Page) -> None:
    """Wait for the first words of the answer."""
    page.get_by_text("Day 2").wait_for()


def shown(page: Page) -> list[str]:
    return page.locator("article").all_text_contents()


def test_an_answer_and_a_question_of_the_agent(site: Site, tabs: Tabs) -> None:
    page = tabs.open(site.url, None)
    ask(page, "Plan a trip")
    ready(page)
    assert shown(page) == ["Plan a trip", "Please answer:Where to?"]
    ask(page, "Kyoto")
    page.get_by_text("Day 4").wait_for()
    ready(page)
    assert shown(page)[2:] == ["Kyoto", ANSWER]
    address = page.url
    page.get_by_role("link", name="New chat").click()
    expect(page.locator("article")).to_have_count(0)
    assert page.url != address
    page.goto(address)
    ready(page)
    assert shown(page)[2:] == ["Kyoto", ANSWER]


def test_a_reload_and_a_second_tab_in_the_middle_of_an_answer(site: Site, tabs: Tabs) -> None:
    site.gate.clear()
    page = tabs.open(site.url, None)
    ask(page, QUESTION)
    half(page)
    page.reload()
    second = tabs.open(page.url, None)
    for tab in (page, second):
        half(tab)
        expect(tab.locator("article")).to_have_count(2)
    site.gate.set()
    for tab in (page, second):
        ready(tab)
        assert shown(tab) == [QUESTION, ANSWER]
    page.reload()
    ready(page)
    assert shown(page) == [QUESTION, ANSWER]
    assert site.runs == [QUESTION]


def test_an_answer_that_ended_while_the_page_was_closed(site: Site, tabs: Tabs) -> None:
    site.gate.clear()
    page = tabs.open(site.url, None)
    ask(page, QUESTION)
    half(page)
    address = page.url
    page.close()
    site.gate.set()
    site.until_ended()
    again = tabs.open(address, None)
    again.get_by_text("Day 4").wait_for()
    ready(again)
    assert shown(again) == [QUESTION, ANSWER]
    assert site.runs == [QUESTION]


@pytest.mark.parametrize("reloads", [True, False], ids=["reload", "no reload"])
def test_a_connection_that_is_cut(site: Site, new_tabs: Callable[..., Tabs], reloads: bool) -> None:
    site.gate.clear()
    with cutting(site.url) as proxy:
        tabs = new_tabs()
        page = tabs.open(proxy.url, None)
        ask(page, QUESTION)
        half(page)
        proxy.cut_all()
        expect(page.get_by_role("alert")).to_have_text("Connection lost, trying again.")
        if reloads:
            page.reload()
            half(page)
        site.gate.set()
        page.get_by_text("Day 4").wait_for()
        ready(page)
        assert shown(page) == [QUESTION, ANSWER]
        assert site.runs == [QUESTION]
        assert [problem for problem in tabs.problems if "net::" not in problem] == []


def served(folder: Path, port: int, pause: float) -> Program:
    """Run the program of the example with its own port, log and pause."""
    source = (FOLDER / "agent.py").read_text(encoding="utf-8")
    log = json.dumps(str(folder / "chats.db"))
    here = {"PORT = 8000": f"PORT = {port}", "PAUSE = 0.2": f"PAUSE = {pause}", '"chats.db"': log}
    for printed, real in here.items():
        assert printed in source
        source = source.replace(printed, real)
    (folder / "agent.py").write_text(source, encoding="utf-8")
    return Program(RUN, folder / "agent.py")


@pytest.mark.timeout(120)
def test_a_server_that_is_killed(built: Path, new_tabs: Callable[..., Tabs]) -> None:
    port = free_port()
    with served(built, port, pause=0.1) as first:
        first.url()
        page = new_tabs().open(f"http://127.0.0.1:{port}/", None)
        ask(page, QUESTION)
        half(page)
        first.signal(signal.SIGKILL)
        assert first.end() == -signal.SIGKILL
    expect(page.get_by_role("alert")).to_have_text("Connection lost, trying again.")
    assert shown(page)[1] != ANSWER
    with served(built, port, pause=0.01) as second:
        second.url()
        page.get_by_text("Day 4").wait_for()  # the page connects again
        ready(page)
        assert shown(page) == [QUESTION, ANSWER]
        page.reload()
        ready(page)
        assert shown(page) == [QUESTION, ANSWER]


def test_stop(site: Site, tabs: Tabs) -> None:
    site.gate.clear()
    page = tabs.open(site.url, None)
    ask(page, QUESTION)
    half(page)
    page.get_by_role("button", name="Stop").click()
    ready(page)
    site.until_ended()
    [_, stopped] = shown(page)
    assert ANSWER.startswith(stopped)
    assert "Day 4" not in stopped
    page.reload()
    ready(page)
    assert shown(page) == [QUESTION, stopped]


def test_regenerate(site: Site, tabs: Tabs) -> None:
    page = tabs.open(site.url, None)
    ask(page, QUESTION)
    ready(page)
    for count in (2, 3):
        site.gate.clear()
        page.get_by_role("button", name="Regenerate").click()
        expect(page.get_by_text("Day 4")).to_have_count(0)  # the old answer is gone
        half(page)
        page.reload()  # the new answer goes on, and not the old one
        half(page)
        expect(page.get_by_text("Day 4")).to_have_count(0)
        site.gate.set()
        page.get_by_text("Day 4").wait_for()
        ready(page)
        assert shown(page) == [QUESTION, ANSWER]
        assert len(site.runs) == count


@pytest.mark.parametrize(
    ("button", "result"),
    [
        (
            "Allow",
            'delete: output-available{"name":"notes"} "deleted"May I delete notes?It is gone.',
        ),
        ("Deny", 'delete: approval-responded{"name":"notes"} May I delete notes?Then I keep it.'),
    ],
    ids=["allow", "deny"],
)
def test_an_approval(site: Site, tabs: Tabs, button: str, result: str) -> None:
    page = tabs.open(site.url, None)
    ask(page, "Delete notes")
    page.get_by_role("button", name=button).wait_for()
    page.reload()
    page.get_by_role("button", name=button).click()
    page.get_by_text(re.compile("gone|keep")).wait_for()
    ready(page)
    assert shown(page) == ["Delete notes", result]
    page.reload()
    ready(page)
    assert shown(page) == ["Delete notes", result]
    assert len(site.runs) == 2


def test_two_quick_sends_are_one_message(site: Site, tabs: Tabs) -> None:
    page = tabs.open(site.url, None)
    page.get_by_role("textbox").fill(QUESTION)
    page.get_by_role("button", name="Send").dblclick()
    page.get_by_text("Day 4").wait_for()
    ready(page)
    assert shown(page) == [QUESTION, ANSWER]
    assert site.runs == [QUESTION]


def test_axe_finds_nothing_serious(site: Site, tabs: Tabs) -> None:
    tools.axe()
    page = tabs.open(site.url, None)
    ask(page, QUESTION)
    page.get_by_text("Day 4").wait_for()
    ready(page)
    ask(page, "Delete notes")
    page.get_by_role("button", name="Allow").wait_for()
    page.get_by_text("Thoughts").click()
    for width, scheme in ((375, "light"), (1280, "dark")):
        page.set_viewport_size({"width": width, "height": 720})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_files_of_the_tutorial_are_those_of_the_example() -> None:
    blocks = parse(TUTORIAL.read_text(encoding="utf-8"), TUTORIAL.name)
    files = {block.title: block.code for block in blocks if block.language not in {"sh", "text"}}
    assert files == {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES}


@pytest.mark.timeout(120)
def test_the_tutorial(tmp_path: Path, environment: dict[str, str], tabs: Tabs) -> None:
    replaced = {"8000": str(free_port()), "PAUSE = 0.2": "PAUSE = 0.01"}
    with Player(tmp_path, replaced, environment) as player:
        player.play(TUTORIAL.read_text(encoding="utf-8"), TUTORIAL.name)
        page = tabs.open(player.replace("http://127.0.0.1:8000/"), None)
        ask(page, QUESTION)
        page.get_by_text("Day 4").wait_for()
        ready(page)
        assert shown(page) == [QUESTION, ANSWER]
