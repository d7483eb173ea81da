"""Faults as adapters report them."""

import pytest

from coreason_client.llm._answer import FaultReceived, Malformed, ProviderFault


def test_a_fault_needs_only_a_message() -> None:
    fault = ProviderFault("broken")
    optional = (fault.codes, fault.status, fault.param, fault.retry_after, fault.request_id)
    assert optional == ((), None, None, None, None)


def test_the_error_of_a_stream_carries_its_fault_and_has_its_message() -> None:
    fault = ProviderFault("overloaded", ("overloaded_error",), status=529)
    with pytest.raises(FaultReceived, match="overloaded") as caught:
        raise FaultReceived(fault)
    assert caught.value.fault is fault


@pytest.mark.parametrize("code", [None, "invalid_event"])
def test_malformed_data_may_have_an_error_code(code: str | None) -> None:
    error = Malformed("not an object", code)
    assert (str(error), error.code) == ("not an object", code)
    assert Malformed("not an object").code is None
