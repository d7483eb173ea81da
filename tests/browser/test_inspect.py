"""The page in Chromium, served by an inspector: a CAP agent and A2A agents of both versions."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from coreason_client.inspector import CAPTarget
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from tests.a2a.loopback import serve as serve_a2a
from tests.inspector.inspecting import KEY, TOKEN, a2a_target, inspecting, url_of

from .conftest import Serve, Tabs, ask, wait_for
from .scripts import SCRIPTS
from .test_page import ALL, wait_for_half, words


def test_a_cap_agent_with_a_key_that_the_page_does_not_have(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    tabs = new_tabs()  # the browser reports the cut as a problem
    site = serve(SCRIPTS, api_keys=[KEY])
    with inspecting(CAPTarget(site.url, KEY, agent_id="test-agent", version="1.0")) as server:
        page = tabs.open(f"{url_of(server)}/#token={TOKEN}")
        assert urlsplit(page.url).fragment == ""
        ask(page, "halves")
        wait_for_half(page)
        page.get_by_test_id("cut").click()
        expect(page.get_by_test_id("reconnects")).not_to_have_text("0")
        page.get_by_test_id("reload").click()
        wait_for_half(page)
        assert KEY not in page.content()
        assert TOKEN not in page.content()
        site.gate.set()
        wait_for(page, "done")
        assert words(page) == ALL
    assert tabs.left == []


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_an_a2a_agent_shows_task_status_and_answer(tabs: Tabs, version: str) -> None:
    with serve_a2a() as agent:
        agent.versions = {version}
        agent.card_extra = {"supportedInterfaces": [interface(agent.url, version)]}
        with inspecting(a2a_target(agent.url)) as server:
            page = tabs.open(f"{url_of(server)}/#token={TOKEN}")
            ask(page, "go")
            wait_for(page, "done")
            expect(page.get_by_test_id("answer")).to_contain_text("1\u20282\u20283\u20284")
            expect(page.get_by_test_id("task")).to_contain_text("completed")
            # It has only text and no name, so its text is the answer.
            expect(page.get_by_test_id("artifact")).to_have_count(0)
            ask(page, "ask")
            wait_for(page, "done")
            expect(page.get_by_test_id("answer").last).to_contain_text("Which?")


async def asking(_: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("I **will** tidy up.\n\n")
    await stream.ask('May I call delete with {"name":"__init__.py"}?')


def test_the_question_of_an_a2a_task_is_shown_as_it_is_written(tabs: Tabs) -> None:
    with (
        running(AgentApp(asking, a2a=True)) as agent,
        inspecting(a2a_target(agent.url)) as server,
    ):
        page = tabs.open(f"{url_of(server)}/#token={TOKEN}")
        ask(page, "go")
        wait_for(page, "done")
        expect(page.locator(".block")).to_have_text(
            ["I will tidy up.", 'May I call delete with {"name":"__init__.py"}?']
        )


async def listening(_: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("begun\n\n")
    message = await anext(stream.inbox)
    await stream.write(f"Heard {message.text}.")


@pytest.mark.parametrize("protocol", ["cap", "a2a"])
def test_a_message_goes_to_the_running_answer(tabs: Tabs, protocol: str) -> None:
    app = AgentApp(listening, a2a=True, inbox=True)
    with running(app) as agent:
        target = CAPTarget(agent.url) if protocol == "cap" else a2a_target(agent.url)
        with inspecting(target) as server:
            page = tabs.open(f"{url_of(server)}/#token={TOKEN}")
            ask(page, "go")
            expect(page.get_by_test_id("answer")).to_contain_text("begun")
            field = page.get_by_test_id("question-input")
            field.fill("louder")
            field.press("Enter")
            wait_for(page, "done")
            expect(page.get_by_test_id("answer")).to_contain_text("Heard louder.")
            expect(page.get_by_test_id("said")).to_have_text(["You said: louder"])


def interface(url: str, version: str) -> dict[str, str]:
    return {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": version}


def test_without_the_token_the_page_says_what_to_do(new_tabs: Callable[..., Tabs]) -> None:
    tabs = new_tabs()  # the browser reports the refusal as a problem
    with inspecting(CAPTarget("http://127.0.0.1:1")) as server:
        page = tabs.open(f"{url_of(server)}/", status=None)
        expect(page.locator("body")).to_contain_text("coreason inspect")


def test_with_a_wrong_key_the_page_names_the_option(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    tabs = new_tabs()  # the browser reports the refusal as a problem
    site = serve(SCRIPTS, api_keys=[KEY])
    with inspecting(CAPTarget(site.url, "another-key")) as server:
        page = tabs.open(f"{url_of(server)}/#token={TOKEN}")
        ask(page, "halves")
        wait_for(page, "failed")
        expect(page.get_by_test_id("answer")).to_contain_text("again with the right --api-key")
