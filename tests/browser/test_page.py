"""The page in Chromium: what it shows of an answer, its timeline, and what can be taken from it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.cap.lost_packets import STREAM, LostPackets

from .conftest import Serve, Tabs, ask, wait_for
from .scripts import MARKDOWN, PIECES, SCRIPTS


def open_inspector(page: Page) -> None:
    if page.locator("#fold").is_visible():
        page.locator("#fold").click()


def test_an_answer_with_everything(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    expect(page.get_by_test_id("empty")).to_be_visible()
    ask(page, "everything")
    wait_for(page, "done")
    answer = page.get_by_test_id("answer")
    expect(page.get_by_test_id("empty")).to_be_hidden()
    expect(answer.locator("h3.md-h1")).to_have_text("A title")
    expect(answer.locator("strong").first).to_have_text("bold")
    expect(answer.locator("td.align-right")).to_have_text("2")
    expect(answer.locator(".wide-pre code")).to_have_text('print("hi")')
    expect(answer.locator("li").nth(1)).to_have_text("two")
    link = answer.get_by_role("link", name="a link")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(page.get_by_test_id("progress")).to_have_attribute("data-step", "complete")
    expect(page.get_by_test_id("notice-warning")).to_contain_text("The cache was cold.")
    expect(page.get_by_test_id("sources").locator("li")).to_have_count(2)
    expect(page.get_by_test_id("sources").get_by_role("link")).to_have_count(1)
    thoughts = page.get_by_test_id("thoughts")
    expect(thoughts.locator(".thought-body")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.locator("p")).to_have_text(["first thought", "second thought"])
    page.get_by_test_id("event").locator("summary").click()
    expect(page.get_by_test_id("event").locator("pre")).to_contain_text('"name": "something"')
    figures = page.get_by_test_id("figures")
    expect(figures).to_contain_text("Reconnects")
    last = page.locator("body").get_attribute("data-last-seq")
    expect(page.locator("#figure-packets")).to_have_text(last or "none")


def test_documents_that_the_server_has_are_links(serve: Serve, tabs: Tabs) -> None:
    site = serve(SCRIPTS, _documents={"docs/b.md": "# The document"})
    tabs.context.route("**/favicon.ico", lambda route: route.abort())  # that of a plain text
    page = tabs.open(site.url)
    ask(page, "everything")
    wait_for(page, "done")
    with page.expect_popup() as popup:
        page.get_by_test_id("sources").get_by_role("link", name="Source B").click()
    expect(popup.value.locator("body")).to_have_text("# The document")


def test_calls_of_tools_and_what_an_answer_took(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "tools")
    wait_for(page, "done")
    tools = page.get_by_test_id("tool")
    states = [tool.get_attribute("data-state") for tool in tools.all()]
    assert states == ["done", "failed", "running"]
    expect(tools.first.locator("summary")).to_have_text('find_orders customer: "C-1" done · 0.21 s')
    expect(tools.nth(1)).to_contain_text("failed · 5 s")
    expect(tools.nth(2)).to_contain_text("stopped")
    tools.first.locator("summary").click()
    expect(tools.first.locator("pre")).to_have_text(
        ['{\n  "customer": "C-1"\n}', '{\n  "id": 7\n}']
    )
    expect(page.get_by_test_id("usage")).to_have_text("m · 1,812 tokens read · 1 token written")


def test_what_an_agent_reports_about_its_own_tools(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "reports")
    wait_for(page, "done")
    tools = page.get_by_test_id("tool")
    assert [tool.get_attribute("data-state") for tool in tools.all()] == ["done", "failed"]
    expect(tools.first.locator("summary")).to_have_text('find_orders customer: "C-1" done')
    expect(tools.nth(1).locator("summary")).to_have_text("track all of them failed")
    expect(tools.first.locator("pre")).to_have_count(0)  # a long result stays folded
    tools.first.locator("summary").click()
    expect(tools.first.locator("pre").nth(1)).to_contain_text("… 45538 more characters")
    expect(page.get_by_test_id("usage")).to_have_text("m · 1,812 tokens read · 3 tokens written")


@pytest.mark.proves("PAGE-media")
def test_media_is_loaded_only_after_a_click(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    tabs = new_tabs()
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "everything")
    wait_for(page, "done")
    assert tabs.left == []
    page.get_by_role("button", name="Load from example.com").click()
    expect(page.get_by_test_id("media").nth(1)).to_contain_text("This could not be loaded.")
    assert tabs.left == ["https://example.com/p.png"]


@pytest.mark.proves("PAGE-timeline")
def test_the_timeline_shows_every_packet(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "everything")
    wait_for(page, "done")
    open_inspector(page)
    title = page.get_by_test_id("details-title")
    timeline = page.get_by_test_id("timeline")
    timeline.focus()
    timeline.press("ArrowRight")
    expect(title).to_contain_text("Packet 1, EVENT")
    shown = json.loads(page.get_by_test_id("details-json").inner_text())
    assert (shown["seq"], shown["op"]) == (1, "EVENT")
    expect(page.locator("#details-rows")).to_contain_text("Connection")
    timeline.press("End")
    expect(title).to_contain_text("CLOSE")
    timeline.press("+")
    timeline.press("Home")
    expect(page.locator("#timeline-option")).to_contain_text("Packet 1, EVENT")
    timeline.press("0")
    timeline.press("Escape")
    expect(title).to_be_hidden()
    box = timeline.bounding_box()
    assert box is not None
    # CLOSE is the last sign in its row. Steps that are smaller than the reach of a click find it
    # before its neighbour, and the next step has to wait until the selection is drawn.
    for left in range(4, int(box["width"]), 4):
        page.mouse.click(box["x"] + box["width"] - left, box["y"] + box["height"] - 49)
        page.evaluate("new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)))")
        if title.is_visible():
            break
    expect(title).to_contain_text("CLOSE")


def sse(*packets: tuple[int, str, object]) -> str:
    stream_id = "123e4567-e89b-12d3-a456-426614174000"
    time = "2026-01-05T10:00:00Z"
    found = [
        {"stream_id": stream_id, "seq": seq, "op": op, "t": time, "p": p} for seq, op, p in packets
    ]
    return "".join(
        f"id: {stream_id}:{packet['seq']}\ndata: {json.dumps(packet)}\n\n" for packet in found
    )


def test_void_text_and_duplicates_are_on_the_timeline_only(serve: Serve, tabs: Tabs) -> None:
    body = sse(
        (1, "DELTA", "kept "),
        (2, "DELTA", "void "),
        (2, "DELTA", "void "),
        (3, "EVENT", {"type": "REWIND", "data": {"to_seq": 1}}),
        (4, "DELTA", "anew"),
        (5, "CLOSE", {}),
    )
    tabs.context.route(
        "**/assist", lambda route: route.fulfill(body=body, content_type="text/event-stream")
    )
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "anything")
    wait_for(page, "done")
    expect(page.get_by_test_id("answer").locator(".block")).to_have_text("kept anew")
    expect(page.get_by_test_id("seam")).to_have_text(
        "The agent started again after 1 word · what followed was written anew"
    )
    expect(page.locator("#figure-duplicates")).to_have_text("1")
    timeline = page.get_by_test_id("timeline")
    titles = []
    for _ in range(7):
        timeline.press("ArrowRight")
        titles.append(page.get_by_test_id("details-title").inner_text().split(",")[0])
    assert "Dropped duplicate of packet 2" in titles
    assert "Rewind: back to packet 1" in titles


@pytest.mark.parametrize("refuses", [True, False])
def test_an_answer_that_was_written_anew_is_read_again(
    serve: Serve, new_tabs: Callable[..., Tabs], refuses: bool
) -> None:
    server = LostPackets(refuses=refuses)

    def answer(route: Route) -> None:
        status, kind, body = server.answer(route.request.headers.get("last-event-id"))
        route.fulfill(status=status, content_type=kind, body=body)

    tabs = new_tabs()
    tabs.context.route("**/assist", answer)
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "anything")
    wait_for(page, "done")
    expect(page.get_by_test_id("answer").locator(".block")).to_have_text("one zwei drei vier")
    assert server.cursors == [None, f"{STREAM}:3", STREAM]
    assert ["410" in problem for problem in tabs.problems] == [True] * refuses


@pytest.mark.proves("PAGE-export")
def test_what_can_be_taken_along(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    tabs = new_tabs(permissions=["clipboard-read", "clipboard-write"], accept_downloads=True)
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "everything")
    wait_for(page, "done")
    page.get_by_test_id("curl").click()
    expect(page.get_by_test_id("toast")).to_contain_text("curl")
    assert "/assist'" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_test_id("python").click()
    expect(page.get_by_test_id("toast")).to_contain_text("Python")
    program = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.startswith(MARKDOWN)
    with page.expect_download() as download:
        page.get_by_test_id("export").click()
    exported = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    [turn] = exported["turns"]
    assert [packet["seq"] for packet in turn["packets"]] == list(range(1, len(turn["packets"]) + 1))
    assert turn["packets"][-1]["op"] == "CLOSE"
    assert turn["question"] == "everything"
    assert tabs.problems == []


def test_a_failed_answer_can_be_asked_again(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "fail")
    wait_for(page, "failed")
    expect(page.get_by_test_id("notice-fatal")).to_contain_text("model_overloaded")
    expect(page.get_by_test_id("answer")).to_contain_text("A beginning.")
    page.get_by_role("button", name="Ask again").click()
    expect(page.get_by_test_id("turn")).to_have_count(2)
    wait_for(page, "failed")


def test_a_transient_error_is_shown(serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(SCRIPTS).url)
    ask(page, "transient")
    wait_for(page, "failed")
    expect(page.get_by_test_id("notice-transient")).to_contain_text("model_busy")
    expect(page.get_by_test_id("notice-fatal")).to_contain_text("model_busy")


@pytest.mark.proves("PAGE-key")
def test_a_key_is_asked_for_and_never_stored(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    tabs = new_tabs()
    site = serve(SCRIPTS, api_keys=["the-right-key-0123456789"])
    # A token is for an inspector: one that was left from another server is not used as a key.
    page = tabs.open(f"{site.url}/#token=of-another-server", "needs-key")
    page.get_by_test_id("key-input").fill("the-wrong-key-0123456789")
    page.get_by_test_id("key-use").click()
    ask(page, "everything")
    wait_for(page, "needs-key")
    expect(page.get_by_test_id("key-dialog")).to_contain_text("did not accept")
    page.get_by_test_id("key-input").fill("the-right-key-0123456789")
    page.get_by_test_id("key-use").click()
    wait_for(page, "done")
    expect(page.get_by_test_id("turn")).to_have_count(1)
    stored = page.evaluate(
        "JSON.stringify([{...sessionStorage}, {...localStorage}, location.href])"
    )
    assert "key-0123456789" not in stored
    with page.expect_popup() as popup:  # the second tab gets the key from the first one
        page.get_by_test_id("tab").click()
    wait_for(popup.value, "done")
    expect(popup.value.get_by_test_id("sources").locator("li")).to_have_count(2)


def test_an_agent_of_a2a(serve: Serve, tabs: Tabs) -> None:
    skill = {"id": "s", "name": "Reports", "description": "Writes", "examples": ["task"]}
    card = {"name": "Reporter", "description": "An agent.", "version": "3", "skills": [skill]}
    config = {
        "agent_id": "reporter",
        "version": "3",
        "protocol": "a2a",
        "target": "https://agent.example/a2a",
        "needs_key": False,
        "adds_key": False,
        "curl_option": ["-H", "Authorization: Bearer {key}"],
        "cut": True,
        "inbox": False,
        "documents": False,
        "card": card,
    }
    tabs.context.route("**/page/config.json", lambda route: route.fulfill(json=config))
    page = tabs.open(serve(SCRIPTS).url)
    expect(page.get_by_role("heading", level=1)).to_have_text("Reporter")
    page.get_by_role("button", name="Card").click()
    expect(page.get_by_test_id("card-dialog")).to_contain_text("Writes")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="task").click()
    wait_for(page, "done")
    expect(page.get_by_test_id("task")).to_have_count(1)
    expect(page.get_by_test_id("task")).to_have_attribute("data-state", "completed")
    expect(page.get_by_test_id("tool")).to_contain_text("find_orders")
    expect(page.get_by_test_id("artifact")).to_contain_text("report")
    expect(page.get_by_test_id("answer").locator(".block")).to_have_text("The report.")


def test_a_server_that_is_away(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    tabs = new_tabs()
    site = serve(SCRIPTS)
    tabs.context.route("**/page/config.json", lambda route: route.abort())
    page = tabs.open(site.url, "unreachable")
    expect(page.get_by_test_id("unreachable")).to_be_visible()
    tabs.context.unroute("**/page/config.json")
    page.get_by_role("button", name="Try again").click()
    wait_for(page, "idle")
    tabs.context.set_offline(True)
    expect(page.get_by_test_id("offline")).to_be_visible()
    tabs.context.set_offline(False)
    expect(page.get_by_test_id("offline")).to_be_hidden()


def words(page: Page) -> list[str]:
    """Return the words of the last answer, without what the page says about its connection."""
    blocks = page.get_by_test_id("answer").last.locator(".block").all_inner_texts()
    return " ".join(blocks).split()


ALL = [f"piece{number}" for number in range(PIECES)]


def wait_for_half(page: Page) -> None:
    expect(page.get_by_test_id("answer").last).to_contain_text(f"piece{PIECES // 2 - 1}")


def test_an_answer_continues_when_the_network_is_back_at_last(
    serve: Serve, new_tabs: Callable[..., Tabs]
) -> None:
    tabs = new_tabs()
    site = serve(SCRIPTS)
    page = tabs.open(site.url)
    page.clock.install()
    page.reload()
    wait_for(page, "idle")
    ask(page, "halves")
    wait_for_half(page)
    tabs.context.set_offline(True)
    kept = json.loads(page.evaluate("sessionStorage['coreason:/:conversation']"))
    cut = {"stream_id": kept["turns"][0]["streamId"]}
    httpx.post(f"{site.url}/page/cut", json=cut).raise_for_status()
    wait_for(page, "waiting")
    pass_time(page, "failed")  # the client gives up after 30 s
    site.gate.set()
    tabs.context.set_offline(False)
    pass_time(page, "done")
    assert words(page) == ALL


def pass_time(page: Page, status: str) -> None:
    """Let the clock of the page run until it has a status, for at most some minutes of its time."""
    for _ in range(60):
        page.clock.run_for(5_000)
        page.wait_for_timeout(50)  # what the browser and the server do takes real time
        if page.evaluate("document.body.dataset.status") == status:
            return
    raise AssertionError(f"the page is never {status}")


@pytest.mark.proves("PAGE-cut")
def test_a_cut_is_healed(serve: Serve, new_tabs: Callable[..., Tabs]) -> None:
    tabs = new_tabs()  # the browser reports the cut as a problem
    site = serve(SCRIPTS)
    page = tabs.open(site.url)
    ask(page, "halves")
    wait_for_half(page)
    page.get_by_test_id("cut").click()
    expect(page.get_by_test_id("reconnects")).to_have_text("1")
    wait_for(page, "open")
    half = f"after {PIECES // 2} words"
    seam = page.get_by_test_id("seam")
    expect(seam).to_have_text(f"Connection lost {half} · reconnecting…")  # no packet has come yet
    page.get_by_label("again and again").check()  # cuts now, and the following connections too
    page.evaluate("Math.random = () => 0.3")  # after 6, 7 and 12 packets
    page.get_by_test_id("cut").click()
    expect(page.get_by_test_id("reconnects")).to_have_text("2")
    site.gate.set()
    wait_for(page, "done")
    assert words(page) == ALL
    expect(page.get_by_test_id("reconnects")).to_have_text(re.compile("^([3-9]|[1-9][0-9])$"))
    expect(seam).to_have_text(re.compile(r"^Connection lost \d+ times, .* resumed, nothing lost$"))
    story = page.get_by_test_id("story")
    expect(story).to_contain_text(f"Connection lost after packet {PIECES // 2}")
    expect(story).to_contain_text(f"Complete: {PIECES + 1} packets, none lost")
    timeline = page.get_by_test_id("timeline")
    timeline.focus()
    for _ in range(PIECES // 2 + 1):
        timeline.press("ArrowRight")
    expect(page.get_by_test_id("details-title")).to_contain_text("Connection lost")
    timeline.press("End")
    expect(page.get_by_test_id("details-title")).not_to_contain_text("connection 1")


@pytest.mark.proves("PAGE-reload")
def test_a_reload_goes_on(serve: Serve, tabs: Tabs) -> None:
    site = serve(SCRIPTS)
    page = tabs.open(site.url)
    ask(page, "everything")
    wait_for(page, "done")
    ask(page, "halves")
    wait_for_half(page)
    page.get_by_test_id("reload").click()
    wait_for(page, "open")
    wait_for_half(page)
    site.gate.set()
    wait_for(page, "done")
    assert words(page) == ALL
    expect(page.get_by_test_id("seam")).to_have_text(
        f"Page reloaded after {PIECES // 2} words · continued, nothing lost"
    )
    expect(page.get_by_test_id("turn")).to_have_count(2)
    expect(page.get_by_test_id("question").first).to_have_text("everything")
    expect(page.get_by_test_id("answer").first).to_contain_text("Some bold text")


@pytest.mark.proves("PAGE-second-tab")
def test_a_second_tab_follows_and_cancels(serve: Serve, tabs: Tabs) -> None:
    site = serve(SCRIPTS)
    page = tabs.open(site.url)
    ask(page, "halves")
    wait_for_half(page)
    with page.expect_popup() as popup:
        page.get_by_test_id("tab").click()
    second = popup.value
    wait_for_half(second)
    expect(second.get_by_test_id("question")).to_have_text("halves")
    assert "stream=" not in second.url
    button = second.get_by_test_id("send")
    expect(button).to_have_text("Stop")
    second.get_by_test_id("question-input").fill("next")
    second.get_by_test_id("question-input").press("Enter")  # neither stops nor sends
    expect(second.get_by_test_id("question-input")).to_have_value("next")
    second.wait_for_timeout(600)  # longer than a double click
    button.click()
    for tab in (page, second):
        wait_for(tab, "cancelled")
        expect(tab.get_by_test_id("notice-info")).to_contain_text("Stopped")
        expect(tab.get_by_test_id("send")).to_have_text("Send")
