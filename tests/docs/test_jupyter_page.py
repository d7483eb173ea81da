"""The cells of the page about notebooks, as a kernel runs them: inside its running event loop."""

import asyncio
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from coreason_client.server import AgentApp, running
from tests.llm.server import ServerInThread

from .blocks import parse
from .conftest import parrot
from .model_service import KEY, model_service

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "jupyter.md"


def test_the_cells_run_in_a_running_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell: Any = InteractiveShell(config=Config(HistoryManager={"enabled": False}))  # type: ignore[no-untyped-call]
    with running(AgentApp(parrot)) as server, ServerInThread() as provider:
        provider.reply = model_service()
        monkeypatch.setenv("LLM_API_KEY", KEY)
        monkeypatch.setenv("LLM_API_BASE_URL", provider.url)
        cells = [block for block in parse(PAGE.read_text(), "jupyter.md") if block.is_notebook]
        assert len(cells) > 5

        async def kernel() -> None:
            for cell in cells:
                code = cell.code.replace("https://agent.example", server.url)
                with redirect_stdout(io.StringIO()) as printed:
                    result = await shell.run_cell_async(code, transformed_cell=code)
                result.raise_error()
                if cell.output is not None:
                    assert printed.getvalue().split() == cell.output.split()

        asyncio.run(kernel())
