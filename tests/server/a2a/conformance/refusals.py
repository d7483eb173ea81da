"""The errors of A2A, and how to provoke each of them."""

from typing import Any

import pytest

from .driver import Driver, Refused
from .messages import completed, message

A2A_ERRORS = {
    # reason: the code of JSON-RPC, the status of HTTP and that of AIP-193
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400, "INVALID_ARGUMENT"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
}
GRPC_STATUSES = {reason: status for reason, (_, _, status) in A2A_ERRORS.items()} | {
    "VERSION_NOT_SUPPORTED": "UNIMPLEMENTED"
}


def provoke(ann: Driver, reason: str) -> Refused:
    """Do something that is refused for a reason."""
    odd = [{"raw": "dGNr", "mediaType": "application/x-odd"}]
    calls: dict[str, Any] = {
        "TASK_NOT_FOUND": lambda: ann.call("GetTask", {"id": "unknown"}),
        "TASK_NOT_CANCELABLE": lambda: ann.call("CancelTask", {"id": completed(ann)["id"]}),
        "PUSH_NOTIFICATION_NOT_SUPPORTED": lambda: ann.call(
            "ListTaskPushNotificationConfigs", {"taskId": "t"}
        ),
        "UNSUPPORTED_OPERATION": lambda: ann.call(
            "SendMessage", message(taskId=completed(ann)["id"])
        ),
        "CONTENT_TYPE_NOT_SUPPORTED": lambda: ann.call("SendMessage", message(parts=odd)),
        "VERSION_NOT_SUPPORTED": lambda: ann.with_version("9.9").call("ListTasks"),
    }
    with pytest.raises(Refused) as refused:
        calls[reason]()
    assert refused.value.reason == reason
    return refused.value
