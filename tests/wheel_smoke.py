"""Install the built wheel into an empty environment and import what it promises."""

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

CODE = """
from coreason_client import AsyncCAPClient, CAPClient, ServiceRequest, __version__
from coreason_client.sse import SSEDecoder, encode_event
from coreason_manifest.definitions.presentation import StreamPacket

assert [event.data for event in SSEDecoder().feed(encode_event("hello"))] == ["hello"]
client = CAPClient("http://127.0.0.1:1", "key")
client.close()
print("coreason-client", __version__, "imports from its wheel")
"""


def main(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    page = "coreason_client/server/page/static"
    missing = {f"{page}/{name}" for name in ("index.html", "coreason.js")}
    if missing := missing.difference(zipfile.ZipFile(wheel).namelist()):
        raise SystemExit(f"the wheel lacks {sorted(missing)}")
    with tempfile.TemporaryDirectory() as empty:
        venv.create(empty, with_pip=True)
        python = str(Path(empty) / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, str(wheel)], check=True)
        subprocess.run([python, "-c", CODE], check=True, cwd=empty)
        # The command names its extra, and with it answers from the documents in the wheel.
        command = [str(Path(empty) / "bin" / "coreason"), "chat", "How do I resume a stream?"]
        bare = subprocess.run(command, capture_output=True, text=True, check=False, cwd=empty)
        if bare.returncode != 1 or "coreason-client[cli]" not in bare.stderr:
            raise SystemExit(f"without its extra the command said: {bare.stderr}")
        subprocess.run([*install, f"{wheel}[cli,server]"], check=True)
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=empty)
        if "Last-Event-ID" not in told.stdout:
            raise SystemExit(f"the built-in agent did not answer: {told.stdout}")
        print("the built-in agent answers from the wheel")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
