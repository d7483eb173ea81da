"""The dashboard and the alerts use the metrics of a real server, each with a function that fits.

Only the row of Postgres has metrics of another program, which must be in a list here.

The dashboard shows all of them, and `docs/operating.md` describes all of them.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from coreason_client.server import AgentApp, running
from tests.each import each
from tests.server.peer import LIMIT

from .install import program
from .promql import Use, uses

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
LEFT_OUT: set[str] = set()  # metrics that have no panel, each with a reason
SCRAPE_LABELS = {"instance", "job"}  # added by Prometheus
# Gauges of postgres_exporter and their labels; nothing here exports them.
POSTGRES = {
    "pg_database_size_bytes": {"datname"},
    "pg_stat_activity_count": {"datname", "state"},
    "pg_stat_user_tables_n_dead_tup": {"datname", "schemaname", "relname"},
    "pg_stat_user_tables_n_live_tup": {"datname", "schemaname", "relname"},
}
# Made by Prometheus itself: whether a target was scraped.
OTHERS = {**POSTGRES, "up": set[str]()}


async def hello(request: object) -> str:
    return "hello"


def exported() -> dict[str, tuple[str, set[str]]]:
    """Return the type and the labels of each metric that a server exposes."""
    with running(AgentApp(hello, metrics=True)) as server:
        text = httpx2.get(f"{server.url}/metrics", timeout=LIMIT).text
    families = text_string_to_metric_families(text)
    return {
        family.name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for family in families
        if not family.name.endswith("_created")
    }


EXPORTED = exported()


def base_name(metric: str) -> str:
    """Return the name of a metric without that of its series."""
    return metric if metric in OTHERS else re.sub(r"_(total|bucket|sum|count)$", "", metric)


def wrong_with(use: Use) -> str | None:
    """Return what is wrong with a metric of an expression."""
    name = base_name(use.metric)
    if name not in EXPORTED and name not in OTHERS:
        return f"{use.metric} is not exported"
    kind, labels = EXPORTED.get(name) or ("gauge", OTHERS[name])
    suffix = use.metric.removeprefix(name)
    if suffix not in {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(
        kind, ("",)
    ):
        return f"{use.metric} is no series of a {kind}"
    grows = kind != "gauge"
    if (
        grows is not bool({"rate", "increase"} & {*use.functions[-1:]})
        or grows is not use.has_range
    ):
        return f"{use.metric} is a {kind}: rate and increase are for what only grows"
    if (suffix == "_bucket") is not ("histogram_quantile" in use.functions):
        return f"{use.metric}: histogram_quantile is for buckets"
    if suffix == "_bucket" and not all("le" in group for group in use.grouped_by):
        return f"{use.metric} loses its le"
    known = labels | SCRAPE_LABELS | {"le"}
    if unknown := {*use.labels, *(label for group in use.grouped_by for label in group)} - known:
        return f"{use.metric} has no label {', '.join(sorted(unknown))}"
    return None


RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
EXPRESSIONS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]


@each(("panel", "target"), EXPRESSIONS)
def test_an_expression_fits_the_metrics(panel: str, target: dict[str, str]) -> None:
    found = uses(target["expr"])
    assert found
    assert [problem for use in found if (problem := wrong_with(use))] == [], panel
    grouped = {label for use in found for group in use.grouped_by for label in group} - {"le"}
    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    assert shown == (grouped or shown & {"instance"}), panel


def test_every_metric_is_shown_or_left_out_for_a_reason() -> None:
    shown = {base_name(use.metric) for _, target in EXPRESSIONS for use in uses(target["expr"])}
    assert shown | LEFT_OUT == EXPORTED.keys() | POSTGRES.keys()
    assert not shown & LEFT_OUT


def test_every_metric_is_described() -> None:
    """With its kind, and with its labels."""
    page = (ROOT / "docs" / "operating.md").read_text()
    rows = re.findall(r"^\| `(coreason_\w+)` \| (\w+) \|(?: `(\w+)`:| \|)", page, re.MULTILINE)
    described = {name.removesuffix("_total"): (kind, {label} - {""}) for name, kind, label in rows}
    assert described == EXPORTED
    assert all(name.endswith("_total") is (kind == "counter") for name, kind, _ in rows)


@each(("rule",), [(rule,) for rule in RULES])
def test_an_alert_fits_the_metrics_and_says_what_to_do(rule: dict[str, Any]) -> None:
    found = uses(rule["expr"])
    assert found
    assert [problem for use in found if (problem := wrong_with(use))] == []
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"].endswith(".")
    assert f"`{rule['alert']}`" in (ROOT / "docs" / "operating.md").read_text()


def test_a_problem_in_an_alert_is_one_that_the_server_has() -> None:
    source = (ROOT / "src/coreason_client/server").rglob("*.py")
    text = "\n".join(path.read_text() for path in source)
    matchers = [re.findall(r'problem=~?"([^"]+)"', rule["expr"]) for rule in RULES]
    problems = {one for found in matchers for names in found for one in names.split("|")}
    assert len(problems) == 5
    assert [one for one in problems if f'"{one}"' not in text] == []


def test_no_expression_divides_by_what_may_be_zero() -> None:
    """Only a maximum, which is never 0, or what a comparison has left over."""
    for expression in [rule["expr"] for rule in RULES] + [one["expr"] for _, one in EXPRESSIONS]:
        for divisor in re.findall(r"/ (.*)", expression.replace("\n", " ")):
            assert divisor.startswith("coreason_limit_maximum") or re.match(
                r"\(sum.*\)\) > 0\)", divisor
            ), expression


@pytest.mark.parametrize(
    "command",
    [
        ["check", "rules", str(DEPLOY / "prometheus-rules.yaml")],
        ["test", "rules", str(Path(__file__).with_name("alerts.yaml"))],
    ],
)
def test_prometheus_accepts_the_alerts_and_they_end(command: list[str]) -> None:
    ran = subprocess.run(
        [program("promtool"), *command], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@each(
    ("expression", "problem"),
    [
        ("rate(coreason_streams_started_total[5m])", None),
        ("sum by (op) (rate(coreason_packets_appended_total[5m]))", None),
        ("coreason_streams_started_total", "only grows"),
        ("sum(coreason_streams_started_total)", "only grows"),
        ("rate(coreason_streams_started[5m])", "no series of a counter"),
        ("rate(coreason_streams_open[5m])", "only grows"),
        ("rate(coreason_no_such_total[5m])", "not exported"),
        ("histogram_quantile(0.9, rate(coreason_streams_started_total[5m]))", "is for buckets"),
        ("rate(coreason_append_seconds_bucket[5m])", "is for buckets"),
        ("histogram_quantile(0.9, rate(coreason_append_seconds_bucket[5m]))", None),
        ("histogram_quantile(0.9, sum(rate(coreason_append_seconds_bucket[5m])))", "loses its le"),
        (
            "histogram_quantile(0.9, sum by (op) (rate(coreason_append_seconds_bucket[5m])))",
            "loses its le",
        ),
        ("up == 0", None),
        ("rate(up[5m])", "only grows"),
        ("sum by (nope) (rate(coreason_resumes_total[5m]))", "no label nope"),
        ('rate(coreason_resumes_total{nope="1"}[5m])', "no label nope"),
    ],
)
def test_a_wrong_expression_is_noticed(expression: str, problem: str | None) -> None:
    [use] = uses(expression)
    found = wrong_with(use)
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize("expression", ["sum(a", "a)", "a ? b"])
def test_what_is_not_promql_is_an_error(expression: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|understood"):
        uses(expression)


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for position in [panel["gridPos"]]
        for x in range(position["x"], position["x"] + position["w"])
        for y in range(position["y"], position["y"] + position["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)
    for panel in PANELS:
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", json.dumps(DASHBOARD)))
    assert used == variables
