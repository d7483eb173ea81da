"""What the run prints at its end: the fault tables, and the requirements that are still open.

A test hands in a line with `record_property("table: TITLE", LINE)`; properties travel with the
reports, so this works when the tests run in several processes too.
"""

from collections import defaultdict

import pytest

_PREFIX = "table: "


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tables: defaultdict[str, list[str]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in report.user_properties:
                if name.startswith(_PREFIX):
                    tables[name.removeprefix(_PREFIX)].append(str(value))
    for title, lines in sorted(tables.items()):
        terminalreporter.section(title)
        for line in sorted(lines):
            terminalreporter.write_line(line)
