"""The harness itself: what it runs, and that it notices what a page does wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import each

from .conftest import Services
from .session import PageError, Session


def run(tmp_path: Path, services: Services, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    folder = tmp_path / "run"
    folder.mkdir()
    Session(page, folder, services.known, services.model).run()


def block(language: str, code: str, output: str | None = None) -> str:
    shown = "" if output is None else f"\n```text\n{output}\n```\n"
    return f"```{language}\n{code}\n```\n{shown}\n"


def file(name: str, code: str) -> str:
    return block(f'python title="{name}"', code)


def is_running(pid: str) -> bool:
    """Return True if there is such a process that nobody has killed."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False
    )
    return bool(done.stdout) and not done.stdout.startswith("Z")


AGENT = """from coreason_client.server import AgentApp, AgentStream, ServiceRequest, serve

async def agent(request: ServiceRequest, stream: AgentStream) -> str:
    return f"Hello, {stream.question}"

app = AgentApp(agent)
if __name__ == "__main__":
    serve(app)"""
ASK = """from coreason_client import CAPClient
with CAPClient("http://127.0.0.1:8000", "key") as client:
    print(client.ask("Ann"), client.base_url)"""


def test_programs_files_and_a_server_in_a_thread(tmp_path: Path, services: Services) -> None:
    before = dict(os.environ), Path.cwd(), [*sys.path]
    text = (
        file("words.py", "WORD = 'w'")
        + block("python", "from words import WORD\nprint(WORD, __name__)", "w __main__")
        + file("words.py", "WORD = 'x'")
        + block("python", "from words import WORD\nprint(WORD)", "x")
        + block("python", AGENT)
        + block("python", ASK, "Hello, Ann http://127.0.0.1:8000...")
        + block("python", AGENT.replace("Hello", "Bye"))
        + block("python", ASK, "Bye, Ann ...")
    )
    run(tmp_path, services, text)
    assert "words" not in sys.modules
    assert (dict(os.environ), Path.cwd(), [*sys.path]) == before


def test_agents_and_models_have_an_address(tmp_path: Path, services: Services) -> None:
    ask = (
        "from coreason_client import CAPClient\nfrom coreason_client.llm import LLMClient\n"
        "with CAPClient('https://agent.example', 'k') as client: print(client.ask('Hi'))\n"
        "asked = [{'role': 'user', 'content': 'Hi'}]\n"
        "with LLMClient.from_env() as model:\n"
        "    for _ in range(2): print(model.generate(asked)['data']['content'])"
    )
    said = "<!-- model says: Blue. -->\n"
    run(tmp_path, services, said + block("python", ask, "You said: Hi\nBlue.\nHello."))


def test_cells_of_a_notebook_share_names_and_may_await(tmp_path: Path, services: Services) -> None:
    cell = "<!-- notebook -->\n"
    first = "import asyncio\nlock = asyncio.Event()\nawait asyncio.sleep(0)"
    second = "lock.set()\nprint(await lock.wait())"
    run(tmp_path, services, cell + block("python", first) + cell + block("python", second, "True"))


def test_one_shell_with_servers_for_the_whole_page(tmp_path: Path, services: Services) -> None:
    """A server in the foreground, its default port, variables, jobs, and the end of it all."""
    text = (
        file("agent.py", AGENT)
        + block("sh", "export COLOUR=blue\npython agent.py")
        + block("sh", "echo $COLOUR", "blue")
        + block("python", "import os\nprint(os.environ['COLOUR'])", "blue")
        + block("python", ASK, "Hello, Ann http://127.0.0.1:8000")
        + block("sh", f"echo $! >{tmp_path}/server\nkill -9 %1")
        + block("sh", f"sleep 300 &\necho $! >{tmp_path}/job")
    )
    run(tmp_path, services, text)
    for name in ("server", "job"):
        assert not is_running((tmp_path / name).read_text().strip())
    assert "COLOUR" not in os.environ


@each(
    ("text", "message"),
    [
        (block("python", "print(1)", "2"), ":2: the page shows\n2\n\nbut this was printed\n1\n"),
        (block("python", "\n1 / 0"), ":2: ZeroDivisionError"),
        (block("python", "import sys\nsys.exit('no')"), ":2: SystemExit: no"),
        (block("python", "def main() -> None: ..."), ":2: nothing calls main()"),
        (file("broken.py", "import nowhere"), ":2: ModuleNotFoundError"),
        (
            block("python", "import socket\nsocket.getaddrinfo('x.example', 1)"),
            "x.example is not on",
        ),
        (block("json", "{1}"), ":2: JSONDecodeError"),
        (block("sh", "echo seen\nfalse\necho unseen"), ":2: CommandError: a command failed:\nseen"),
    ],
)
def test_what_a_page_does_wrong_is_noticed(
    text: str, message: str, tmp_path_factory: pytest.TempPathFactory, services: Services
) -> None:
    with pytest.raises(PageError) as caught:
        run(tmp_path_factory.mktemp("page"), services, text)
    assert message in str(caught.value)


def test_the_tests_of_a_page_are_run(tmp_path: Path, services: Services) -> None:
    text = file("test_one.py", "def test_it(): assert 1 == 2")
    with pytest.raises(PageError, match=r"assert 1 == 2"):
        run(tmp_path, services, text)
