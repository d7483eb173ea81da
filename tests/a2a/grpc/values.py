"""Hypothesis strategies for JSON objects that a protobuf message can carry."""

from base64 import b64encode
from typing import Any

from hypothesis import strategies as st

from coreason_client.a2a._grpc._messages import message_type

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
SCALARS = {
    "string": TEXT,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "bytes": st.binary(max_size=4).map(lambda data: b64encode(data).decode()),
}
WELL_KNOWN: dict[str, Any] = {
    "google.protobuf.Struct": st.dictionaries(TEXT, VALUES, max_size=2),
    "google.protobuf.Value": VALUES,
    "google.protobuf.Timestamp": st.datetimes().map(lambda found: f"{found.isoformat()}Z"),
}
KINDS = {1: "double", 5: "int32", 8: "bool", 9: "string", 12: "bytes"}


def _single(field: Any, depth: int) -> Any:
    if field.message_type is not None:
        return objects(field.message_type, depth - 1)
    if field.enum_type is not None:
        return st.sampled_from([value.name for value in field.enum_type.values])
    return SCALARS[KINDS[field.type]]


def _field(field: Any, depth: int) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return st.dictionaries(TEXT, _single(inner.fields_by_name["value"], depth), max_size=2)
    single = _single(field, depth)
    return st.lists(single, max_size=2) if field.is_repeated else single


def objects(descriptor: Any, depth: int = 5) -> Any:
    """Return a strategy for the JSON objects of a message, at most one member of a one-of."""
    if descriptor.full_name in WELL_KNOWN:
        return WELL_KNOWN[descriptor.full_name]
    if depth == 0:
        return st.just({})
    plain = {
        field.json_name: _field(field, depth)
        for field in descriptor.fields
        if field.containing_oneof is None or len(field.containing_oneof.fields) == 1
    }
    found = st.fixed_dictionaries({}, optional=plain)
    for oneof in descriptor.oneofs:
        if len(oneof.fields) > 1:
            choices = [
                st.fixed_dictionaries({field.json_name: _field(field, depth)})
                for field in oneof.fields
            ]
            found = st.builds(lambda a, b: {**a, **b}, found, st.one_of(st.just({}), *choices))
    return found


def objects_of(name: str) -> Any:
    """Return a strategy for the JSON objects of a message by its full name."""
    return objects(message_type(name).DESCRIPTOR)
