"""Our messages have the wire format of the official ones, and live beside them in one process."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from coreason_client.a2a._grpc._messages import message_type, method_descriptors
from scripts import generate_proto


def shape(descriptor: Any) -> dict[int, tuple[Any, ...]]:
    """Return what is on the wire and in the JSON form of a message, by field number."""
    return {
        field.number: (
            field.json_name,
            field.type,
            field.is_repeated,
            field.has_presence,
            field.message_type and field.message_type.full_name,
            field.enum_type and [(v.name, v.number) for v in field.enum_type.values],
            field.containing_oneof and len(field.containing_oneof.fields),
        )
        for field in descriptor.fields
    }


def test_the_descriptors_are_up_to_date() -> None:
    assert generate_proto.TARGET.read_text() == generate_proto.generate()


def test_the_script_says_when_they_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_proto, "TARGET", tmp_path / "_descriptors.py")
    assert generate_proto.main(["--check"]) == 1
    assert capsys.readouterr().err == "_descriptors.py is out of date: run `make proto`\n"
    assert generate_proto.main([]) == 0
    assert generate_proto.main(["--check"]) == 0


@pytest.mark.parametrize("official", [a2a_pb2, a2a_v0_3_pb2], ids=["1.0", "0.3"])
def test_every_message_is_the_same_on_the_wire(official: Any) -> None:
    package = official.DESCRIPTOR.package
    for name, descriptor in official.DESCRIPTOR.message_types_by_name.items():
        ours = message_type(f"{package}.{name}").DESCRIPTOR
        assert shape(ours) == shape(descriptor), name
        assert ours is not descriptor


@pytest.mark.parametrize("official", [a2a_pb2, a2a_v0_3_pb2], ids=["1.0", "0.3"])
def test_every_method_is_the_same_on_the_wire(official: Any) -> None:
    def signatures(methods: Any) -> set[tuple[Any, ...]]:
        return {
            (m.name, m.input_type.full_name, m.output_type.full_name, m.server_streaming)
            for m in methods
        }

    service = official.DESCRIPTOR.services_by_name["A2AService"]
    assert signatures(method_descriptors(service.full_name)) == signatures(service.methods)


@pytest.mark.parametrize(
    "official",
    [
        status_pb2.Status,
        error_details_pb2.ErrorInfo,
        error_details_pb2.RetryInfo,
    ],
)
def test_the_details_of_errors_are_the_same_on_the_wire(official: Any) -> None:
    ours = message_type(official.DESCRIPTOR.full_name).DESCRIPTOR
    assert shape(ours) == shape(official.DESCRIPTOR)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        message_type("lf.a2a.v1.Nothing")
