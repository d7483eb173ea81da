"""The methods of the two gRPC services, by the names of our operations. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ._messages import method_descriptors

__all__ = ["SERVICES", "GrpcMethod", "methods_of"]

SERVICES: Mapping[str, str] = {"1.0": "lf.a2a.v1.A2AService", "0.3": "a2a.v1.A2AService"}
"""The full name of the service by protocol version."""

_OPERATIONS: Mapping[str, str] = {
    "SendMessage": "send_message",
    "SendStreamingMessage": "send_message_stream",
    "GetTask": "get_task",
    "ListTasks": "list_tasks",
    "CancelTask": "cancel_task",
    "SubscribeToTask": "resubscribe",
    "CreateTaskPushNotificationConfig": "create_push_config",
    "GetTaskPushNotificationConfig": "get_push_config",
    "ListTaskPushNotificationConfigs": "list_push_configs",
    "DeleteTaskPushNotificationConfig": "delete_push_config",
    "GetExtendedAgentCard": "get_extended_card",
    # The names of 0.3.
    "TaskSubscription": "resubscribe",
    "ListTaskPushNotificationConfig": "list_push_configs",
    "GetAgentCard": "get_extended_card",
}


@dataclass(frozen=True, slots=True)
class GrpcMethod:
    """One method of a service.

    Attributes:
        operation: the name of the operation, such as `get_task`.
        path: the path of the call, such as `/lf.a2a.v1.A2AService/GetTask`.
        request, response: the full names of the messages.
        streams: whether the response is a stream of messages.
    """

    operation: str
    path: str
    request: str
    response: str
    streams: bool


@cache
def methods_of(version: str) -> Mapping[str, GrpcMethod]:
    """Return the methods of a protocol version, "1.0" or "0.3", by the name of the operation.

    Raises:
        KeyError: there is no such version.
    """
    service = SERVICES[version]
    found = (
        GrpcMethod(
            operation=_OPERATIONS[method.name],
            path=f"/{service}/{method.name}",
            request=method.input_type.full_name,
            response=method.output_type.full_name,
            streams=method.server_streaming,
        )
        for method in method_descriptors(service)
    )
    return {method.operation: method for method in found}
