"""The methods of the services, by operation."""

import pytest

from coreason_client.a2a._dialects import OPERATIONS, V03
from coreason_client.a2a._grpc._messages import methods_of


def test_every_operation_of_1_0_has_a_method() -> None:
    methods = methods_of("1.0")
    assert set(methods) == set(OPERATIONS)
    assert {name: method.streams for name, method in methods.items()} == {
        name: operation.streams for name, operation in OPERATIONS.items()
    }
    assert methods["get_task"].path == "/lf.a2a.v1.A2AService/GetTask"
    assert methods["delete_push_config"].response == "google.protobuf.Empty"


def test_every_operation_of_0_3_has_a_method() -> None:
    methods = methods_of("0.3")
    assert set(methods) == set(V03.methods)
    assert methods["resubscribe"].path == "/a2a.v1.A2AService/TaskSubscription"


def test_another_version_has_none() -> None:
    with pytest.raises(KeyError):
        methods_of("2.0")
