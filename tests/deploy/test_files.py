"""The files of `deploy` parse, fit together, and run the command with options that it has."""

import configparser
import fnmatch
import json
import re
import shlex
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import crossplane  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from dockerfile_parse import DockerfileParser  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from coreason_client.server import AgentApp, PostgresStreamLog, ValkeyStreamLog
from coreason_client.server.process._draining_server import AFTER_DRAIN
from tests.cli.test_documented import parse
from tests.test_project import PYPROJECT

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SECRET = re.compile(r"key|secret|password|token", re.IGNORECASE)
PORT = 8000


async def agent(request: object) -> str:
    return ""


def options_of(words: list[str]) -> dict[str, str]:
    """Return the options of a command line, `--name value` or `--name=value`."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            found[name] = value or ("" if following.startswith("--") else following)
    return found


def longest_stop(words: list[str]) -> float:
    """Return how many seconds the command may take to stop."""
    drain = float(options_of(words).get("--drain-timeout", "10"))
    cancel_grace = AgentApp(agent, drain_timeout=0).shutdown_timeout
    return drain + cancel_grace + 2 * AFTER_DRAIN


def seconds(text: object) -> float:
    return float(str(text).removesuffix("s"))


# The image.


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    parser = DockerfileParser(path=str(DEPLOY / "Dockerfile"))
    return [
        (str(one["instruction"]), str(one["value"]))
        for one in parser.structure
        if one["instruction"] != "COMMENT"
    ]


def last(dockerfile: list[tuple[str, str]], name: str) -> str:
    return [value for instruction, value in dockerfile if instruction == name][-1]


def test_the_image_serves_as_a_user_without_rights(dockerfile: list[tuple[str, str]]) -> None:
    bases = [value for instruction, value in dockerfile if instruction == "FROM"]
    assert bases == ["${BASE} AS build", "${BASE}"]
    [base] = [value for instruction, value in dockerfile if instruction == "ARG"]
    # One release, and the bytes that it had: a tag can be moved.
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base)
    assert last(dockerfile, "USER") == "10001:10001"
    assert last(dockerfile, "STOPSIGNAL") == "SIGTERM"
    assert last(dockerfile, "EXPOSE") == str(PORT)
    # Nothing after the user is set needs another one.
    names = [name for name, _ in dockerfile]
    assert "RUN" not in names[names.index("USER") :]


def pip_commands(dockerfile: list[tuple[str, str]]) -> list[list[str]]:
    """Return the arguments of each `pip install`."""
    commands = [part for name, value in dockerfile if name == "RUN" for part in value.split("&&")]
    words = [shlex.split(command) for command in commands if "pip install" in command]
    return [one[one.index("install") + 1 :] for one in words]


def locked(name: str) -> dict[str, Requirement]:
    """Return the requirements of a lock file, each of which must have one version and hashes."""
    found = {}
    for line in (DEPLOY / name).read_text().replace("\\\n", "").splitlines():
        if line.startswith("#"):
            continue
        requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
        assert hashes, line
        assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes), requirement
        one = Requirement(requirement)
        assert re.fullmatch(r"==[^,*]+", str(one.specifier)), requirement
        found[one.name] = one
    return found


def test_everything_in_the_image_has_a_hash(dockerfile: list[tuple[str, str]]) -> None:
    """The wheel alone has none: it is built in the image, and brings nothing else."""
    lock, build, wheel = pip_commands(dockerfile)
    assert lock == ["--require-hashes", "-r", "deploy/requirements.txt"]
    assert build == ["--require-hashes", "-r", "deploy/requirements-build.txt"]
    assert wheel == ["--no-index", "--no-deps", "/wheel/*.whl"]
    assert "PIP_ONLY_BINARY=:all:" in " ".join(value for name, value in dockerfile if name == "ENV")
    extras = PYPROJECT["project"]["optional-dependencies"]
    names = ("cli", "server", "llm", "valkey", "postgres", "metrics", "fast")
    declared = [*PYPROJECT["project"]["dependencies"]]
    declared += [one for name in names for one in extras[name]]
    for file, requirements in (
        ("requirements.txt", declared),
        ("requirements-build.txt", PYPROJECT["build-system"]["requires"]),
    ):
        versions = {name: str(one.specifier)[2:] for name, one in locked(file).items()}
        for one in map(Requirement, requirements):
            assert one.specifier.contains(versions[one.name]), f"{one}: write {file} again"


def test_the_command_of_the_image_is_one_process(dockerfile: list[tuple[str, str]]) -> None:
    entry, command = (json.loads(last(dockerfile, name)) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["coreason", "serve"]
    parse(["serve", *command])
    assert options_of(command)["--port"] == str(PORT)
    check = last(dockerfile, "HEALTHCHECK").partition("CMD ")[2]
    [python, program] = json.loads(check)
    copied = [value.split() for name, value in dockerfile if name == "COPY"]
    assert (python, ["deploy/healthcheck.py", program]) == ("python", copied[-1])


def test_no_secret_and_no_other_file_gets_into_a_layer(dockerfile: list[tuple[str, str]]) -> None:
    for name, value in dockerfile:
        if name in ("ARG", "ENV", "LABEL"):
            assert not SECRET.search(value), value
    copied = [value.split() for name, value in dockerfile if name == "COPY"]
    sources = [word for words in copied if not words[0].startswith("--from") for word in words[:-1]]
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    assert set(sources) == allowed
    for source in sources:
        assert (ROOT / source).exists(), source
    # What the build needs is there: the files that pyproject.toml names.
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "docs", "js"} <= allowed
    assert not any(fnmatch.fnmatch(".env", rule) for rule in allowed)


# Compose and nginx.


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the directives of nginx.conf."""
    return parsed_by_crossplane(tmp_path_factory.mktemp("nginx"), DEPLOY / "nginx.conf")


def parsed_by_crossplane(folder: Path, file: Path) -> list[dict[str, Any]]:
    """Return the directives of a file of conf.d; their names, places and arguments are checked."""
    main = folder / "nginx.conf"
    main.write_text(f"events {{}}\nhttp {{\n    include {file};\n}}\n")
    found = crossplane.parse(str(main), strict=True, comments=False)
    assert [error["error"] for error in found["errors"]] == []
    directives: list[dict[str, Any]] = found["config"][1]["parsed"]
    return directives


def test_a_wrong_configuration_of_nginx_is_noticed(tmp_path: Path) -> None:
    for number, wrong in enumerate(
        ("proxy_bufering off;", "location / {}", "server { listen 80 }", "keepalive 4;")
    ):
        file = tmp_path / f"{number}.conf"
        file.write_text(wrong)
        with pytest.raises(AssertionError, match=r"directive|parameter|terminated"):
            parsed_by_crossplane(tmp_path, file)


def block(directives: list[dict[str, Any]], name: str, *arguments: str) -> list[dict[str, Any]]:
    [found] = [
        one["block"]
        for one in directives
        if one["directive"] == name and one["args"][: len(arguments)] == list(arguments)
    ]
    return list(found)


def values(directives: list[dict[str, Any]], name: str) -> list[list[str]]:
    return [one["args"] for one in directives if one["directive"] == name]


def test_three_replicas_share_a_store_that_keeps_what_it_acknowledges(
    services: dict[str, Any],
) -> None:
    agents = {name: one for name, one in services.items() if name.startswith("agent-")}
    assert len(agents) == 3
    store = services["valkey"]["command"]
    assert "--appendfsync always" in " ".join(store)
    assert "--maxmemory-policy noeviction" in " ".join(store)
    assert all(isinstance(word, str) for word in store)  # a bare yes would be a boolean
    for one in agents.values():
        parse(["serve", *one["command"]])
        options = options_of(one["command"])
        assert (options["--host"], options["--port"]) == ("0.0.0.0", str(PORT))
        assert one["environment"]["COREASON_STORE"] == "valkey://valkey:6379"
        assert seconds(one["stop_grace_period"]) >= longest_stop(one["command"])
        build = one["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
        [mounted] = [volume.split(":") for volume in one["volumes"]]
        assert one["environment"]["COREASON_API_KEYS_FILE"].startswith(f"{mounted[1]}/")
        assert mounted[2] == "ro"
        assert not [name for name in one["environment"] if name == "COREASON_API_KEYS"]
    for one in services.values():
        assert set(one.get("depends_on", {})) <= services.keys()
        assert re.search(r":\d", one["image"]) or "build" in one


def test_the_file_with_postgres_has_the_same_agents_on_another_store(
    services: dict[str, Any],
) -> None:
    others = yaml.safe_load((DEPLOY / "compose.postgres.yaml").read_text())["services"]
    assert others.keys() == services.keys() - {"valkey"} | {"postgres"}
    assert others["nginx"] == services["nginx"]
    store = others["postgres"]
    own = {"environment", "depends_on"}
    for name in [name for name in services if name.startswith("agent-")]:
        one, other = others[name], services[name]
        assert {key: one[key] for key in one.keys() - own} == {
            key: other[key] for key in other.keys() - own
        }
        assert one["depends_on"] == {"postgres": other["depends_on"]["valkey"]}
        [mounted] = [volume.split(":") for volume in one["volumes"]]
        assert one["environment"]["PGPASSFILE"].startswith(f"{mounted[1]}/")
        url, settings = one["environment"]["COREASON_STORE"], store["environment"]
        user, database = settings["POSTGRES_USER"], settings["POSTGRES_DB"]
        assert url == f"postgresql://{user}@postgres:5432/{database}"
        PostgresStreamLog(url)
    assert "POSTGRES_PASSWORD" not in store["environment"]
    mounts = [volume.split(":")[1] for volume in store["volumes"]]
    assert store["environment"]["POSTGRES_PASSWORD_FILE"] in mounts


def test_nginx_knows_every_replica_and_streams(
    services: dict[str, Any], nginx: list[dict[str, Any]]
) -> None:
    upstream = block(nginx, "upstream", "coreason")
    addresses = {arguments[0] for arguments in values(upstream, "server")}
    assert addresses == {f"{name}:{PORT}" for name in services if name.startswith("agent-")}
    [[idle]] = values(upstream, "keepalive_timeout")
    assert seconds(idle) < 5  # timeout_keep_alive of uvicorn
    server = block(nginx, "server")
    [[body]] = values(server, "client_max_body_size")
    assert body == "4m"
    assert AgentApp(agent)._options.max_body_bytes == 4 * 1024 * 1024
    location = block(server, "location", "/")
    assert values(location, "proxy_pass") == [["http://coreason"]]
    assert values(location, "proxy_buffering") == [["off"]]
    assert values(location, "proxy_http_version") == [["1.1"]]
    assert ["Connection", ""] in values(location, "proxy_set_header")
    [[patience]] = values(location, "proxy_read_timeout")
    assert seconds(patience) > 2 * AgentApp(agent)._options.heartbeat
    [[port]] = values(server, "listen")
    [published] = services["nginx"]["ports"]
    assert published.split(":")[1] == port
    [mounted] = services["nginx"]["volumes"]
    assert (DEPLOY / mounted.split(":")[0]).resolve() == DEPLOY / "nginx.conf"


# Kubernetes.


def manifest() -> list[dict[str, Any]]:
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert [(one["apiVersion"], one["kind"]) for one in found] == [
        ("apps/v1", "Deployment"),
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
    ]
    return found


@pytest.mark.parametrize("version", ["1.32", "1.37"])
def test_kubernetes_accepts_the_manifest(version: str) -> None:
    """By the schemas of its API, which know every field; a wrong field is noticed."""
    for one in manifest():
        kubernetes_validate.validate(one, version, strict=True)
        wrong = {**one, "spec": {**one["spec"], "replica": 3}}
        with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
            kubernetes_validate.validate(wrong, version, strict=True)


def test_a_stall_of_the_store_takes_no_pod_out_of_the_service() -> None:
    """All pods share it: those that fail together must not be taken out together."""
    [container] = manifest()[0]["spec"]["template"]["spec"]["containers"]
    probe = container["readinessProbe"]
    patience = 10.0  # of the logs: a stall that is shorter is not noticed
    for log in (ValkeyStreamLog("valkey://store"), PostgresStreamLog("postgresql://store")):
        assert log._patience == patience
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 2 * patience
    assert probe["timeoutSeconds"] > 1  # what /ready may take while the server starts


def test_pods_are_spread_protected_and_without_rights() -> None:
    deployment, service, budget, policy = manifest()
    spec, labels = deployment["spec"]["template"]["spec"], service["spec"]["selector"]
    assert spec["automountServiceAccountToken"] is False
    spread = spec["topologySpreadConstraints"]
    assert [one["topologyKey"] for one in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    selectors = [one["labelSelector"] for one in spread]
    selectors += [budget["spec"]["selector"], policy["spec"]["podSelector"]]
    assert all(selector == {"matchLabels": labels} for selector in selectors)
    assert budget["spec"]["maxUnavailable"] < deployment["spec"]["replicas"]
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    [incoming] = policy["spec"]["ingress"]
    [container] = spec["containers"]
    assert [port["port"] for port in incoming["ports"]] == [container["ports"][0]["name"]]
    outgoing = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
    assert outgoing == [53, 53, 6379, 443]
    for rule in policy["spec"]["egress"]:
        for target in rule.get("to", []):
            network = ip_network(target["ipBlock"]["cidr"])
            assert all(
                ip_network(other).subnet_of(network)  # type: ignore[arg-type]
                for other in target["ipBlock"]["except"]
            )


def test_the_manifest_has_a_deployment_with_probes_and_a_service() -> None:
    deployment, service, *_ = manifest()
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    spec = template["spec"]
    [container] = spec["containers"]
    parse(["serve", *container["args"]])
    options = options_of(container["args"])
    [port] = container["ports"]
    assert str(port["containerPort"]) == options["--port"] == str(PORT)
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    paths = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: probe["path"] for name, probe in paths.items()} == {
        "startupProbe": "/ready",
        "readinessProbe": "/ready",
        "livenessProbe": "/health",
    }
    assert {probe["port"] for probe in paths.values()} == {port["name"]}
    [sleep, pause] = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert spec["terminationGracePeriodSeconds"] >= int(pause) + longest_stop(container["args"])
    assert spec["securityContext"]["runAsUser"] == 10001
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in spec["volumes"]}
    for option in ("--api-keys-file", "--metrics-key-file"):
        assert options[option].startswith(f"{mounts['keys']}/")


# systemd.


def test_the_unit_stops_and_reloads_as_the_command_expects() -> None:
    unit = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read_string((DEPLOY / "coreason.service").read_text())
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    program, command, *words = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("coreason", "serve")
    parse(["serve", *words])
    options = options_of(words)
    assert options["--uds"].startswith(f"/run/{service['RuntimeDirectory']}/")
    assert options["--store"].startswith(f"sqlite:/var/lib/{service['StateDirectory']}/")
    assert seconds(service["TimeoutStopSec"]) >= longest_stop(words)
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillSignal"] == "SIGTERM"
