"""As much of PromQL as the dashboard and alerts use: each metric with the functions around it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<range>\[[^\]]*\])|(?P<labels>\{[^}]*\})"""
    r"""|(?P<number>[0-9.]+)|(?P<sign>[()*/+,-]|[<>=!]=|[<>]))"""
)
_AGGREGATIONS = {"avg", "count", "max", "min", "sum"}
_LABEL = re.compile(r'([a-z_]+)(?:=~|!~|!=|=)"[^"]*"')


@dataclass(frozen=True)
class Use:
    """A metric in an expression."""

    metric: str
    labels: frozenset[str]
    has_range: bool
    functions: tuple[str, ...]  # from the outermost
    grouped_by: tuple[frozenset[str], ...]  # the labels of each aggregation around it


def uses(expression: str) -> list[Use]:
    """Return the metrics of an expression.

    Raises:
        ValueError: the expression has a form that is not known here, or its brackets do not match.
    """
    tokens = [one for one in _tokens(expression) if one != ("name", "and")]
    found: list[Use] = []
    stack: list[tuple[str, frozenset[str] | None]] = []
    function, at = "", 0
    labels: frozenset[str] | None = None
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1 : at + 4]
        if kind == "name" and text in ("by", "on"):
            end = next(i for i in range(at, len(tokens)) if tokens[i][1] == ")")
            given = frozenset(t for k, t in tokens[at + 2 : end] if k == "name")
            labels, at = given if text == "by" else labels, end
        elif kind == "name" and following and following[0][1] in ("(", "by"):
            function, labels = text, frozenset() if text in _AGGREGATIONS else None
        elif kind == "name":
            selector = following[0][1] if following and following[0][0] == "labels" else ""
            rest = following[1:] if selector else following
            found.append(
                Use(
                    text,
                    frozenset(_LABEL.findall(selector)),
                    bool(rest) and rest[0][0] == "range",
                    tuple(name for name, _ in stack if name),
                    tuple(group for _, group in stack if group is not None),
                )
            )
        elif text == "(":
            stack.append((function, labels))
            function, labels = "", None
        elif text == ")":
            if not stack:
                raise ValueError(f"a bracket is not open in {expression}")
            stack.pop()
        at += 1
    if stack:
        raise ValueError(f"a bracket is not closed in {expression}")
    return found


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while expression[at:].strip():
        match = _TOKEN.match(expression, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"not understood: {expression[at:]}")
        at = match.end()
        yield match.lastgroup, match[match.lastgroup]
