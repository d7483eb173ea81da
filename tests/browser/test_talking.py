"""The page while an agent works: messages to it, and what it asks before it calls a tool."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from coreason_client import CAPClient
from coreason_client.server import AgentStream

from .conftest import Serve, Tabs, ask, wait_for
from .scripts import SCRIPTS
from .site import Site
from .test_access import _OVERFLOW, violations


async def talk(stream: AgentStream, site: Site) -> None:
    """Repeat each message, until one says "stop"."""
    await stream.write("begun\n\n")
    async for message in stream.inbox:
        await stream.write(f"Heard {message.text}.\n\n")
        if message.text == "stop":
            return


async def deaf(stream: AgentStream, site: Site) -> None:
    """Read no message, and end when the gate is open."""
    await stream.write("begun")
    await site.opened()


async def fails(stream: AgentStream, site: Site) -> None:
    """Read no message, and fail when the gate is open."""
    await deaf(stream, site)
    raise RuntimeError("as told")


async def permission(stream: AgentStream, site: Site) -> None:
    """Ask whether a tool may be called."""
    call = await stream.tool_call("delete", {"path": "x"})
    await stream.ask("May I call delete?", call_id=call)


RISKY = r'{"name":"__init__.py","old":"~~a~~  b","say":"\"hi\" `id` <b>"}'


async def risky(stream: AgentStream, site: Site) -> None:
    """Write Markdown, and ask for a call whose arguments look like Markdown."""
    await stream.write("I **will** tidy up.\n\n")
    call = await stream.tool_call("delete", {})
    await stream.ask(f"May I call delete with {RISKY}?", call_id=call)


async def plain_question(stream: AgentStream, site: Site) -> None:
    """Ask for something else."""
    await stream.ask("Which one?")


async def decided(stream: AgentStream, site: Site) -> None:
    """Tell the decision."""
    answered = await stream.answered_question()
    assert answered is not None
    await stream.write(f"approved: {answered.approved}, reason: {answered.reason}.")


async def hears(stream: AgentStream, site: Site) -> None:
    """Answer a message that another agent did not read."""
    await stream.write("At last.")


ALL = {
    **SCRIPTS,
    "hello?": hears,
    "talk": talk,
    "deaf": deaf,
    "fails": fails,
    "delete": permission,
    "risky": risky,
    "which": plain_question,
    **dict.fromkeys(["yes", "no", "no, use a copy"], decided),
}


def begin(page: Page, question: str) -> Locator:
    """Ask, wait until the answer has begun, and return the field."""
    ask(page, question)
    expect(page.get_by_test_id("answer").last).to_contain_text("begun")
    return page.get_by_test_id("question-input")


def order(page: Page) -> list[str]:
    """Return the paragraphs of the last answer and the messages in it."""
    parts = page.get_by_test_id("answer").last.locator(".parts > *").all_inner_texts()
    return [re.sub(r"\s+", " ", part) for part in parts]


@pytest.mark.proves("PAGE-say")
def test_a_message_goes_to_the_running_answer(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(ALL, inbox=True).url)
    send, stop = page.get_by_test_id("send"), page.get_by_test_id("stop")
    expect(stop).to_be_hidden()
    field = begin(page, "talk")
    expect(send).to_have_text(re.compile("Send to the running answer"))
    expect(field).to_have_attribute("placeholder", "Tell the agent something")
    for word in ("also in French", "and <b>short</b>"):
        field.fill(word)
        field.press("Enter")
        expect(field).to_have_value("")
        expect(page.get_by_test_id("answer")).to_contain_text(f"Heard {word}")
    expect(page.get_by_test_id("said")).to_have_text(
        ["You said: also in French", "You said: and <b>short</b>"]
    )
    expect(page.get_by_test_id("turn")).to_have_count(1)
    heard = order(page)
    assert [part for part in heard if part.startswith("Heard")] == [
        "Heard also in French.",
        "Heard and <b>short</b>.",
    ]
    page.get_by_test_id("reload").click()
    expect(page.get_by_test_id("said")).to_have_count(2)  # a reload keeps them, at their places
    expect(page.get_by_test_id("answer")).to_contain_text("Heard and")
    assert [part for part in order(page) if "reloaded" not in part] == heard
    field.fill("stop")
    with page.expect_response("**/messages"):
        send.click()
    wait_for(page, "done")
    expect(page.get_by_test_id("said")).to_have_count(3)
    expect(page.locator(".unread")).to_have_count(0)
    expect(send).to_have_text("Send")
    expect(stop).to_be_hidden()
    ask(page, "everything")
    expect(page.get_by_test_id("turn")).to_have_count(2)
    wait_for(page, "done")
    page.reload()
    expect(page.get_by_test_id("said")).to_have_count(3)  # also in an earlier turn


def test_the_answer_can_still_be_stopped(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(ALL, inbox=True).url)
    begin(page, "talk")
    page.wait_for_timeout(600)  # a double click does not stop
    page.get_by_test_id("stop").click()
    wait_for(page, "cancelled")
    expect(page.get_by_test_id("stop")).to_be_hidden()


def test_a_refused_message_returns_to_the_field(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    tabs = new_tabs()  # the browser reports the refusal as a problem
    site = serve(ALL, inbox=True)
    held: list[Route] = []
    tabs.context.route("**/messages", lambda route: held.append(route))
    page = tabs.open(site.url)
    field = begin(page, "deaf")
    field.fill("too late")
    with page.expect_request("**/messages"):
        field.press("Enter")
    field.fill("typed since")
    site.gate.set()
    wait_for(page, "done")
    held[0].continue_()
    expect(page.get_by_test_id("toast")).to_have_text(
        "Not sent: The stream has ended: send a new request."
    )
    expect(field).to_have_value("too late\ntyped since")
    expect(page.get_by_test_id("said")).to_have_count(0)


def test_a_message_that_may_have_arrived_is_heard_once(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    tabs = new_tabs()  # the browser reports the lost responses as problems
    page = tabs.open(serve(ALL, inbox=True).url)
    field = begin(page, "talk")
    page.route("**/messages", lose)
    field.fill("hello")
    field.press("Enter")
    expect(page.get_by_test_id("toast")).to_contain_text("Perhaps not sent: ", timeout=20_000)
    expect(field).to_have_value("hello")
    page.unroute("**/messages")
    for word in ("", "hello", "stop"):  # the same again, and then another one with its text
        field.fill(word or field.input_value())
        with page.expect_response("**/messages"):
            field.press("Enter")
    wait_for(page, "done")
    assert [part for part in order(page) if part.startswith("Heard")] == [
        "Heard hello.",
        "Heard hello.",
        "Heard stop.",
    ]


def test_a_reload_loses_nothing_that_was_being_sent(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(ALL, inbox=True).url)
    held: set[str] = set()

    def hold(route: Route) -> None:
        """Give the first request of a path no response."""
        if route.request.url in held:
            route.continue_()
        held.add(route.request.url)

    for path, text, heard in (
        ("**/assist", "talk", "begun"),
        ("**/messages", "hello", "Heard hello."),
    ):
        page.route(path, hold)
        with page.expect_request(path):
            ask(page, text)
        page.reload()
        expect(page.get_by_test_id("answer")).to_contain_text(heard)
        expect(page.get_by_test_id("question")).to_have_count(1)
    expect(page.get_by_test_id("said")).to_have_count(1)
    page.reload()
    ask(page, "stop")
    wait_for(page, "done")
    assert [part for part in order(page) if part.startswith("Heard")] == [
        "Heard hello.",
        "Heard stop.",
    ]


@pytest.mark.parametrize(("question", "status"), [("deaf", "done"), ("fails", "failed")])
def test_a_message_that_was_not_read_says_so(
    serve: Serve, tabs: Tabs, question: str, status: str
) -> None:
    site = serve(ALL, inbox=True)
    page = tabs.open(site.url)
    field = begin(page, question)
    field.fill("hello?")
    with page.expect_response("**/messages"):
        field.press("Enter")
    said = page.get_by_test_id("said")
    expect(said).to_have_text("You said: hello?")
    site.gate.set()
    wait_for(page, status)
    expect(said).to_have_class(re.compile(r"\bunread\b"))


@pytest.mark.parametrize("question", ["deaf", "fails"])
def test_a_message_that_was_not_read_is_answered_next(
    serve: Serve, tabs: Tabs, question: str
) -> None:
    site = serve(ALL, inbox=True, on_busy="wait")
    page = tabs.open(site.url)
    field = begin(page, question)
    field.fill("hello?")
    with page.expect_response("**/messages"):
        field.press("Enter")
    site.gate.set()
    expect(page.get_by_test_id("answer")).to_have_count(2)
    expect(page.get_by_test_id("answer").last).to_contain_text("At last.")
    expect(page.get_by_test_id("question").last).to_have_text("hello?")
    page.reload()
    expect(page.get_by_test_id("answer").last).to_contain_text("At last.")
    expect(page.get_by_test_id("answer")).to_have_count(2)


PRESS_AT_ONCE = """() => new MutationObserver((_, observer) => {
    const button = document.querySelector(".approval button");
    if (!button) return;
    observer.disconnect();
    document.body.dataset.pressed = document.body.dataset.status;
    button.click();
    button.click();
}).observe(document.body, { childList: true, subtree: true })"""


@pytest.mark.proves("PAGE-approve")
def test_a_button_that_is_pressed_before_the_answer_has_ended_counts_once(
    serve: Serve, tabs: Tabs
) -> None:
    page = tabs.open(serve(ALL).url)
    page.evaluate(PRESS_AT_ONCE)
    ask(page, "delete")
    expect(page.get_by_test_id("answer").last).to_contain_text("approved: True, reason: .")
    expect(page.get_by_test_id("question")).to_have_text(["delete", "yes"])
    assert page.evaluate("document.body.dataset.pressed") == "open"


@pytest.mark.proves("PAGE-approve")
def test_a_call_is_approved_or_denied_with_buttons(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(ALL).url)
    buttons, answer = page.get_by_test_id("approval"), page.get_by_test_id("answer").last
    approve, deny = (page.get_by_role("button", name=name) for name in ("Approve", "Deny"))
    ask(page, "delete")
    wait_for(page, "done")
    expect(buttons).to_be_visible()
    expect(page.locator("#live")).to_have_text("The agent asks: May I call delete?")  # read out
    expect(page.get_by_test_id("tool")).to_contain_text("waits")
    page.get_by_test_id("reload").click()
    approve.press("Enter")
    expect(answer).to_contain_text("approved: True, reason: .")
    expect(page.get_by_role("region", name="Messages")).to_be_focused()  # not the whole page
    expect(page.get_by_test_id("question").last).to_have_text("yes")
    expect(buttons).to_have_count(0)
    for reason, words in (("", "no"), ("use a copy", "no, use a copy")):
        wait_for(page, "done")
        ask(page, "delete")
        expect(buttons).to_be_visible()
        deny.click()
        why = buttons.get_by_role("textbox")
        expect(why).to_be_focused()
        why.fill(reason)
        why.press("Enter")
        expect(answer).to_contain_text(f"approved: False, reason: {reason}.")
        expect(page.get_by_test_id("question").last).to_have_text(words)
        expect(buttons).to_have_count(0)


def test_a_button_permits_only_the_call_that_it_shows(serve: Serve, tabs: Tabs) -> None:
    """Somebody else has answered meanwhile, and the agent asks for another call."""
    site = serve(ALL)
    page = tabs.open(f"{site.url}#conversation=c")
    ask(page, "delete")
    wait_for(page, "done")
    with CAPClient(site.url, "any") as client:
        assert "approved: False" in client.ask("no", "c")
        client.ask("delete", "c")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_test_id("answer").last).to_contain_text("The server refused")
        assert "approved: False" in client.ask("no", "c")  # it is still open
    tabs.problems.clear()  # the browser reports a status of 404 and of 409


def test_a_question_is_shown_as_it_is_written_also_after_a_reload(serve: Serve, tabs: Tabs) -> None:
    """The user may permit what it says."""
    page = tabs.open(serve(ALL).url)
    ask(page, "risky")
    question = page.get_by_test_id("answer").first.locator(".block").last
    for leave in (lambda: None, page.reload, lambda: ask(page, "hello?"), page.reload):
        leave()
        wait_for(page, "done")
        expect(question).to_have_text(f"May I call delete with {RISKY}?", use_inner_text=True)
        expect(page.locator(".block strong").first).to_have_text("will")
    # The text of the first answer is now what the tab has kept.


def test_other_questions_have_no_buttons_and_a_typed_answer_removes_them(
    serve: Serve, tabs: Tabs
) -> None:
    page = tabs.open(serve(ALL).url)
    ask(page, "which")
    wait_for(page, "done")
    expect(page.get_by_test_id("notice-info")).to_have_text("The agent waits for your answer.")
    expect(page.get_by_test_id("approval")).to_have_count(0)
    ask(page, "delete")
    expect(page.get_by_test_id("approval")).to_be_visible()
    ask(page, "yes")
    expect(page.get_by_test_id("answer").last).to_contain_text("approved: True")
    expect(page.get_by_test_id("approval")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_talk_at_every_width(
    serve: Serve, new_tabs: Callable[..., Tabs], scheme: str
) -> None:
    site = serve(ALL, inbox=True)
    page = new_tabs(color_scheme=scheme, viewport={"width": 375, "height": 720}).open(site.url)
    ask(page, "delete")
    wait_for(page, "done")
    page.get_by_role("button", name="Deny").click()
    assert violations(page) == []
    field = begin(page, "deaf")
    field.fill("a message that is longer than the width of the window, and goes on")
    with page.expect_response("**/messages"):
        field.press("Enter")
    expect(page.get_by_test_id("said")).to_have_count(1)
    for width in (375, 768, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(_OVERFLOW) == [], width
        assert violations(page) == []
    site.gate.set()
    wait_for(page, "done")
    assert violations(page) == []


@pytest.mark.proves("PAGE-others")
def test_what_another_page_and_a_program_ask_appears(serve: Serve, tabs: Tabs) -> None:
    site = serve(ALL, inbox=True, on_busy="wait")
    address = f"{site.url}#conversation=a%2Fb"
    page, other = tabs.open(address), tabs.open(address)
    begin(other, "talk")
    expect(page.get_by_test_id("question")).to_have_text("talk")
    expect(page.get_by_test_id("answer")).to_contain_text("begun")  # while it is being written
    field = page.get_by_test_id("question-input")
    field.fill("stop")
    field.press("Enter")
    wait_for(page, "done")
    wait_for(other, "done")
    with CAPClient(site.url, "any") as client:
        assert str(client.ask("delete", "a/b")) == "May I call delete?"
    for one in (page, other):
        expect(one.get_by_test_id("question")).to_have_text(["talk", "delete"])
    page.get_by_role("button", name="Approve").click()
    for one in (page, other):
        expect(one.get_by_test_id("question")).to_have_text(["talk", "delete", "yes"])
        expect(one.get_by_test_id("answer").last).to_contain_text("approved: True")
        expect(one.get_by_role("button", name="Approve")).to_have_count(0)
    page.reload()
    expect(page.get_by_test_id("question")).to_have_text(["talk", "delete", "yes"])
    begin(other, "deaf")
    expect(page.get_by_test_id("question")).to_have_text(["talk", "delete", "yes", "deaf"])
    site.gate.set()
    wait_for(page, "done")
    page.get_by_role("button", name="New").click()
    expect(page.get_by_test_id("question")).to_have_count(0)
    assert "#" not in page.url


@pytest.mark.parametrize("status", [410, 503])
def test_others_are_shown_again_after_a_restart(serve: Serve, tabs: Tabs, status: int) -> None:
    """The server may start, or may have lost the last answer."""
    site = serve(ALL, on_busy="wait")
    paths = "**/conversations/**"
    tabs.context.route(paths, lambda route: route.fulfill(status=status), times=1)
    with CAPClient(site.url, "any") as client:
        asked = client.chat("deaf", "c")
        assert next(asked) == "begun"
        page = tabs.open(f"{site.url}#conversation=c", None)
        expect(page.get_by_test_id("question")).to_have_text("deaf")
        site.gate.set()
        assert list(asked) == []
    wait_for(page, "done")
    tabs.problems.clear()  # the browser reports the status


def test_an_agent_without_an_order_shows_only_what_is_asked_here(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(f"{serve(ALL).url}#conversation=c")
    expect(page.get_by_test_id("toast")).to_contain_text(
        "What others ask is not shown: The answers"
    )
    ask(page, "hello?")
    wait_for(page, "done")
    expect(page.get_by_test_id("turn")).to_have_count(1)
    tabs.problems.clear()  # the browser reports a status of 404
