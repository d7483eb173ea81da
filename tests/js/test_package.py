"""The npm package as its users get it: packed, installed, type-checked, bundled and run."""

import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coreason_client import __version__
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from tests.browser import tools
from tests.installed import npm_package

pytestmark = pytest.mark.timeout(200)  # the first test may install all tools

JS = Path(__file__).parents[2] / "js"
BUNDLERS = ("esbuild@0.28.2", "vite@8.3.8", "webpack@5.112.2")
JUDGES = ("@arethetypeswrong/core@0.18.5", "publint@0.3.25")
TYPES = ("typescript@7.0.2", "@types/node@22.19.0")
NODE = "22.23.3"
MAX_PACKED = 32 * 1024  # bytes
INSTALL = ("install", "--offline", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")

MAIN = """
import { CAPClient, type Packet } from "coreason-client";

const client = new CAPClient(process.argv[2] ?? "", { key: "key" });
const stream = client.chat("hello");
let said = "";
for await (const text of stream) said += text.toUpperCase();
const id: string | null = stream.streamId;
console.log(JSON.stringify([said, id !== null, stream.complete]));

export const read = (packet: Packet): string => (packet.op === "DELTA" ? packet.p : packet.op);
// @ts-expect-error: a message is text, so the types are found and are not `any`
export const wrong = () => client.chat(5);
"""
# How a project finds modules, and the globals that it has: those of a browser, or those of Node.js.
NODE_JS = {"lib": ["es2022"], "types": ["node"], "skipLibCheck": True}
PROJECTS: dict[str, dict[str, object]] = {
    # The only one that also checks our declarations: those of Node.js would take seconds.
    "bundler": {
        "module": "esnext",
        "lib": ["es2022", "dom"],
        "types": [],
        "skipDefaultLibCheck": True,
    },
    "node16": {"module": "node16", **NODE_JS},
    "nodenext": {"module": "nodenext", **NODE_JS},
}
STRICT = {
    "strict": True,
    "noUncheckedIndexedAccess": True,
    "exactOptionalPropertyTypes": True,
    "target": "es2022",
}
BUNDLE = """
import { build as esbuild } from "esbuild";
import { build as vite } from "vite";
import webpack from "webpack";

const [entry, folder] = process.argv.slice(2);
const outfile = `${folder}/esbuild.mjs`;
await esbuild({ entryPoints: [entry], outfile, bundle: true, format: "esm" });
const lib = { entry, formats: ["es"], fileName: () => "vite.mjs" };
await vite({
  configFile: false,
  logLevel: "error",
  build: { outDir: folder, emptyOutDir: false, lib },
});
const stats = await new Promise((resolve, reject) => webpack({
  entry,
  mode: "production",
  target: "node",
  experiments: { outputModule: true },
  output: { path: folder, filename: "webpack.mjs", module: true },
}, (error, stats) => (error ? reject(error) : resolve(stats))));
if (stats.hasErrors() || stats.hasWarnings()) throw new Error(stats.toString());
"""
JUDGE = """
import { readFile } from "node:fs/promises";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";

const [tarball, folder] = process.argv.slice(2);
const checked = await checkPackage(createPackageFromTarballData(await readFile(tarball)));
const { messages } = await publint({ pkgDir: folder, strict: true, pack: false });
console.log(JSON.stringify({ types: checked.problems, package: messages }));
"""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def node_22() -> Path:
    """Return Node.js 22, from the package of npm that has only the program."""
    system = {"Darwin": "darwin", "Linux": "linux", "Windows": "win"}[platform.system()]
    machine = {"aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "x64")
    name = f"node-{system}-{machine}"
    return npm_package(f"{name}@{NODE}") / "node_modules" / name / "bin" / "node"


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as `npm publish` would send it."""
    tools.node()
    folder = tmp_path_factory.mktemp("packed")
    run("npm", "pack", "--silent", "--pack-destination", folder, folder=JS)
    [found] = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def project(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed; `..` has the tools of the tests."""
    above = tmp_path_factory.mktemp("project")
    (above / "node_modules").mkdir()
    for packages in (TYPES, JUDGES, BUNDLERS):
        for found in (npm_package(*packages) / "node_modules").iterdir():
            link = above / "node_modules" / found.name
            if not link.exists():
                link.symlink_to(found)
    folder = above / "own"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    run("npm", *INSTALL, tarball, folder=folder)
    (folder / "main.ts").write_text(MAIN, encoding="utf-8")
    (folder / "globals.d.ts").write_text("declare const process: { argv: string[] };", "utf-8")
    return folder


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("You said ")
        await stream.write(stream.question)

    with running(AgentApp(agent)) as server:
        yield server.url


def test_the_package_has_these_files_and_no_more(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = sorted(archive.getnames())
        manifest = json.load(archive.extractfile("package/package.json"))  # type: ignore[arg-type]
    files = ["LICENSE", "README.md", "coreason.d.ts", "coreason.js", "package.json"]
    assert names == [f"package/{name}" for name in files]
    assert tarball.name == f"coreason-client-{__version__}.tgz"
    assert tarball.stat().st_size <= MAX_PACKED
    # A package with scripts that npm runs, or with dependencies, could run the code of others.
    assert set(manifest["scripts"]) == {"test"}
    assert not [name for name in manifest if "ependencies" in name]


@pytest.mark.parametrize("name", PROJECTS)
def test_its_types_are_found_and_the_program_runs(name: str, project: Path, url: str) -> None:
    options = {**STRICT, **PROJECTS[name], "moduleResolution": name, "outDir": name}
    files = ["main.ts", *(["globals.d.ts"] if name == "bundler" else [])]
    config = project / f"{name}.json"
    config.write_text(json.dumps({"compilerOptions": options, "files": files}), "utf-8")
    compiler = project.parent / "node_modules" / "typescript" / "bin" / "tsc"
    run(tools.node(), compiler, "-p", config, folder=project)
    said = run(tools.node(), project / name / "main.js", url, folder=project)
    assert json.loads(said) == ["YOU SAID HELLO", True, True]


def test_every_bundle_of_it_runs_by_itself(project: Path, url: str, tmp_path: Path) -> None:
    """Each runs in a folder without packages, so it has what it needs."""
    script = project / "bundle.mjs"
    script.write_text(BUNDLE, encoding="utf-8")
    entry = project / "main.mjs"
    shutil.copy(project / "main.ts", project / "entry.ts")
    compiler = project.parent / "node_modules" / "esbuild" / "bin" / "esbuild"
    run(compiler, "entry.ts", f"--outfile={entry}", folder=project)
    run(tools.node(), script, entry, tmp_path, folder=project)
    bundles = sorted(path.name for path in tmp_path.iterdir())
    assert bundles == ["esbuild.mjs", "vite.mjs", "webpack.mjs"]
    for name in bundles:
        for program in (tools.node(), node_22()):
            said = run(program, tmp_path / name, url, folder=tmp_path)
            assert json.loads(said) == ["YOU SAID HELLO", True, True], (name, program)


def test_node_22_imports_and_requires_it(project: Path) -> None:
    program = 'console.log(typeof require("coreason-client").CAPClient)'
    said = run(node_22(), "--input-type=commonjs", "--eval", program, folder=project)
    assert said == "function\n"


def test_the_judges_of_packages_find_nothing(project: Path, tarball: Path) -> None:
    script = project / "judge.mjs"
    script.write_text(JUDGE, encoding="utf-8")
    installed = project / "node_modules" / "coreason-client"
    found = json.loads(run(tools.node(), script, tarball, installed, folder=project))
    # The package is an ES module; Node.js 20.19 and later can `require` one.
    types = [problem for problem in found["types"] if problem["kind"] != "CJSResolvesToESM"]
    assert (types, found["package"]) == ([], [])
