"""Checks a JSON value against a JSON schema. Pure.

It knows the keywords of the 2020-12 draft that describe values. It does not know `format`, which is
an annotation there, `$dynamicRef`, `unevaluated…`, and references to other documents: a schema
that uses them accepts more values than it should, never fewer.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["schema_problem"]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
}

Problems = Iterator[str]


def schema_problem(value: Any, schema: Any) -> str | None:
    """Return the first difference between a value and a schema, None if there is none."""
    try:
        return next(_Checker(schema).problems(value, schema, "the value"), None)
    except RecursionError:
        return "the value or the schema is nested too deeply"


class _Checker:
    """Checks values; `root` is the document that `$ref` refers to."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def problems(self, value: Any, schema: Any, where: str) -> Problems:
        if schema is False:
            yield f"{where} is not allowed"
        if not isinstance(schema, Mapping):
            return
        for keyword, rule in schema.items():
            if (check := _KEYWORDS.get(keyword)) is not None:
                yield from check(self, value, rule, where, schema)

    def accepts(self, value: Any, schema: Any) -> bool:
        return next(self.problems(value, schema, ""), None) is None

    def ref(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        target = self._root
        if not isinstance(rule, str) or not rule.startswith("#"):
            return
        for name in filter(None, rule[1:].split("/")):
            key = name.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, Mapping) else None
        yield from self.problems(value, target, where)

    def type(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        names = rule if isinstance(rule, list) else [rule]
        known = [_TYPES[name] for name in names if name in _TYPES]
        if len(known) == len(names) and not any(check(value) for check in known):
            yield f"{where} must be of the type {' or '.join(names)}"

    def properties(self, value: Any, rule: Any, where: str, schema: Any) -> Problems:
        if not isinstance(value, Mapping):
            return
        patterns = schema.get("patternProperties", {})
        for name, item in value.items():
            inside = f"{where}.{name}" if where != "the value" else name
            named = schema.get("properties", {})
            matching = [found for pattern, found in patterns.items() if _search(pattern, name)]
            if name in named:
                matching.append(named[name])
            for each in matching or [schema.get("additionalProperties", True)]:
                yield from self.problems(item, each, inside)

    def required(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        if isinstance(value, Mapping):
            yield from (f"{where} must have {name!r}" for name in rule if name not in value)

    def dependent_required(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        for name, names in rule.items():
            if isinstance(value, Mapping) and name in value:
                yield from self.required(value, names, where, None)

    def dependent_schemas(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        for name, schema in rule.items():
            if isinstance(value, Mapping) and name in value:
                yield from self.problems(value, schema, where)

    def property_names(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        for name in value if isinstance(value, Mapping) else ():
            yield from self.problems(name, rule, f"the name {name!r} in {where}")

    def items(self, value: Any, rule: Any, where: str, schema: Any) -> Problems:
        first = schema.get("prefixItems", [])
        for index, item in enumerate(value if isinstance(value, list) else ()):
            each = first[index] if index < len(first) else schema.get("items", True)
            yield from self.problems(item, each, f"{where}[{index}]")

    def contains(self, value: Any, rule: Any, where: str, schema: Any) -> Problems:
        if not isinstance(value, list):
            return
        found = sum(self.accepts(item, rule) for item in value)
        if not schema.get("minContains", 1) <= found <= schema.get("maxContains", math.inf):
            yield f"{where} has {found} items that match `contains`"

    def unique_items(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        if rule is True and isinstance(value, list):
            for index, item in enumerate(value):
                if any(_equal(item, other) for other in value[:index]):
                    yield f"{where}[{index}] must not repeat an item"

    def all_of(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        for schema in rule:
            yield from self.problems(value, schema, where)

    def any_of(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        if not any(self.accepts(value, schema) for schema in rule):
            yield f"{where} matches none of the schemas in `anyOf`"

    def one_of(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        count = sum(self.accepts(value, schema) for schema in rule)
        if count != 1:
            yield f"{where} matches {count or 'none'} of the schemas in `oneOf`, not one"

    def not_(self, value: Any, rule: Any, where: str, _: Any) -> Problems:
        if self.accepts(value, rule):
            yield f"{where} matches the schema in `not`"

    def if_(self, value: Any, rule: Any, where: str, schema: Any) -> Problems:
        branch = "then" if self.accepts(value, rule) else "else"
        yield from self.problems(value, schema.get(branch, True), where)


Check = Callable[[_Checker, Any, Any, str, Any], Problems]


def _comparison(
    kind: Callable[[Any], bool], holds: Callable[[Any, Any], bool], words: str
) -> Check:
    """Return the check of a keyword whose rule is compared with values of one type."""

    def check(_: _Checker, value: Any, rule: Any, where: str, __: Any) -> Problems:
        if kind(value) and not holds(value, rule):
            yield f"{where} must {words} {rule}"

    return check


def _search(pattern: Any, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except (re.error, TypeError):
        return True  # not a pattern of Python, so it cannot be checked


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_multiple(value: Any, divisor: Any) -> bool:
    quotient = value / divisor
    return math.isclose(quotient, round(quotient), rel_tol=1e-9, abs_tol=1e-9)


def _equal(one: Any, other: Any) -> bool:
    """Compare JSON values: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def _in(value: Any, allowed: Sequence[Any]) -> bool:
    return any(_equal(value, each) for each in allowed)


def _any(_: Any) -> bool:
    return True


_object, _array, _string = _TYPES["object"], _TYPES["array"], _TYPES["string"]
_KEYWORDS: dict[str, Check] = {
    "$ref": _Checker.ref,
    "type": _Checker.type,
    "properties": _Checker.properties,
    "patternProperties": lambda checker, value, rule, where, schema: (
        checker.properties(value, rule, where, schema) if "properties" not in schema else iter(())
    ),
    "additionalProperties": lambda checker, value, rule, where, schema: (
        checker.properties(value, rule, where, schema)
        if not schema.keys() & {"properties", "patternProperties"}
        else iter(())
    ),
    "required": _Checker.required,
    "dependentRequired": _Checker.dependent_required,
    "dependentSchemas": _Checker.dependent_schemas,
    "propertyNames": _Checker.property_names,
    "prefixItems": _Checker.items,
    "items": lambda checker, value, rule, where, schema: (
        checker.items(value, rule, where, schema) if "prefixItems" not in schema else iter(())
    ),
    "contains": _Checker.contains,
    "uniqueItems": _Checker.unique_items,
    "allOf": _Checker.all_of,
    "anyOf": _Checker.any_of,
    "oneOf": _Checker.one_of,
    "not": _Checker.not_,
    "if": _Checker.if_,
    "enum": _comparison(_any, _in, "be one of"),
    "const": _comparison(_any, _equal, "be"),
    "pattern": _comparison(_string, lambda text, rule: _search(rule, text), "match"),
    "minLength": _comparison(_string, lambda text, rule: len(text) >= rule, "have a length from"),
    "maxLength": _comparison(_string, lambda text, rule: len(text) <= rule, "have a length up to"),
    "minItems": _comparison(_array, lambda items, rule: len(items) >= rule, "have items, at least"),
    "maxItems": _comparison(_array, lambda items, rule: len(items) <= rule, "have items, at most"),
    "minProperties": _comparison(
        _object, lambda items, rule: len(items) >= rule, "have properties, at least"
    ),
    "maxProperties": _comparison(
        _object, lambda items, rule: len(items) <= rule, "have properties, at most"
    ),
    "minimum": _comparison(_is_number, lambda number, rule: number >= rule, "be at least"),
    "maximum": _comparison(_is_number, lambda number, rule: number <= rule, "be at most"),
    "exclusiveMinimum": _comparison(_is_number, lambda number, rule: number > rule, "be more than"),
    "exclusiveMaximum": _comparison(_is_number, lambda number, rule: number < rule, "be less than"),
    "multipleOf": _comparison(_is_number, _is_multiple, "be a multiple of"),
}
