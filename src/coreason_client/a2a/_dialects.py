"""The two dialects (versions) of the protocol as data. Pure.

Inside this package all objects have the shape of 1.0; the shapes of 0.3 are in `_v03`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import errors
from ._v03._shapes import DECODE, ENCODE, METHODS, Conversion, card_from_v03
from .errors import A2AJSONRPCError


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the protocol; `idempotent` means that it may be sent twice."""

    name: str
    result: str
    idempotent: bool = True
    streams: bool = False


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("send_message", "event", idempotent=False),
        Operation("send_message_stream", "event", idempotent=False, streams=True),
        Operation("get_task", "task"),
        Operation("list_tasks", "tasks"),
        Operation("cancel_task", "task"),
        Operation("resubscribe", "event", streams=True),
        Operation("create_push_config", "push", idempotent=False),
        Operation("get_push_config", "push"),
        Operation("list_push_configs", "pushes"),
        Operation("delete_push_config", "nothing"),
        Operation("get_extended_card", "card"),
    )
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version of the protocol.

    `methods` are the JSON-RPC names, `paths` the verb and path of REST, `media_type` is the type of
    a REST body. `encode` converts the parameters of an operation from 1.0 to this dialect, `decode`
    converts a kind of result to 1.0. `subscribing_is_safe` is False if subscribing to a task makes
    servers duplicate its content: then a lost stream is resumed by fetching the task.
    """

    version: str
    methods: Mapping[str, str]
    extension_headers: tuple[str, ...]
    paths: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    encode: Mapping[str, Conversion] = field(default_factory=dict)
    decode: Mapping[str, Conversion] = field(default_factory=dict)
    has_tenants: bool = False
    media_type: str = "application/a2a+json"
    subscribing_is_safe: bool = True

    def decoded(self, kind: str, value: Any) -> Any:
        """Return a kind of result in the shape of 1.0.

        Raises:
            ValueError: it does not have the shape of this dialect.
        """
        convert = self.decode.get(kind)
        return value if convert is None else convert_checked(convert, value)

    def lacks(self, operation: Operation) -> errors.UnsupportedOperationError:
        """Return the error for an operation that this version does not have."""
        return errors.UnsupportedOperationError(
            f"version {self.version} of the protocol has no {operation.name}"
        )


def convert_checked(convert: Conversion, value: Any) -> Any:
    """Convert a value that an agent sent.

    Raises:
        ValueError: it does not have the expected shape.
    """
    try:
        return convert(value)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"it does not have the expected shape ({error})") from error


# Errors

_ERROR_CLASSES = (
    (errors.JSONParseError, None),
    (errors.InvalidRequestError, None),
    (errors.MethodNotFoundError, None),
    (errors.InvalidParamsError, None),
    (errors.InternalError, None),
    (errors.TaskNotFoundError, "TASK_NOT_FOUND"),
    (errors.TaskNotCancelableError, "TASK_NOT_CANCELABLE"),
    (errors.PushNotificationNotSupportedError, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (errors.UnsupportedOperationError, "UNSUPPORTED_OPERATION"),
    (errors.ContentTypeNotSupportedError, "CONTENT_TYPE_NOT_SUPPORTED"),
    (errors.InvalidAgentResponseError, "INVALID_AGENT_RESPONSE"),
    (errors.ExtendedAgentCardNotConfiguredError, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (errors.ExtensionSupportRequiredError, "EXTENSION_SUPPORT_REQUIRED"),
    (errors.VersionNotSupportedError, "VERSION_NOT_SUPPORTED"),
)
ERRORS_BY_CODE: Mapping[int, type[A2AJSONRPCError]] = {
    kind.default_code: kind for kind, _ in _ERROR_CLASSES
}
ERRORS_BY_REASON: Mapping[str, type[A2AJSONRPCError]] = {
    reason: kind for kind, reason in _ERROR_CLASSES if reason is not None
}
# Over HTTP+JSON the general JSON-RPC errors have no reason.
ERRORS_BY_STATUS: Mapping[str, type[A2AJSONRPCError]] = {
    "INTERNAL": errors.InternalError,
    "INVALID_ARGUMENT": errors.InvalidParamsError,
}

# The dialects

V10 = Dialect(
    version="1.0",
    extension_headers=("A2A-Extensions",),
    has_tenants=True,
    methods={
        "send_message": "SendMessage",
        "send_message_stream": "SendStreamingMessage",
        "get_task": "GetTask",
        "list_tasks": "ListTasks",
        "cancel_task": "CancelTask",
        "resubscribe": "SubscribeToTask",
        "create_push_config": "CreateTaskPushNotificationConfig",
        "get_push_config": "GetTaskPushNotificationConfig",
        "list_push_configs": "ListTaskPushNotificationConfigs",
        "delete_push_config": "DeleteTaskPushNotificationConfig",
        "get_extended_card": "GetExtendedAgentCard",
    },
    paths={
        "send_message": ("POST", "/message:send"),
        "send_message_stream": ("POST", "/message:stream"),
        "get_task": ("GET", "/tasks/{id}"),
        "list_tasks": ("GET", "/tasks"),
        "cancel_task": ("POST", "/tasks/{id}:cancel"),
        "resubscribe": ("POST", "/tasks/{id}:subscribe"),
        "create_push_config": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
        "get_push_config": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "list_push_configs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
        "delete_push_config": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "get_extended_card": ("GET", "/extendedAgentCard"),
    },
    decode={"card": card_from_v03},  # an extended card may have older fields too
)

V03 = Dialect(
    version="0.3",
    extension_headers=("A2A-Extensions", "X-A2A-Extensions"),
    subscribing_is_safe=False,
    methods=METHODS,
    encode=ENCODE,
    decode=DECODE,
)


def dialect_of(version: str) -> Dialect | None:
    """Return the dialect of a version, None if unsupported; the patch number is ignored."""
    major, _, rest = version.partition(".")
    if major == "1":
        return V10
    # 0.2 has the same method names and shapes as 0.3.
    return V03 if major == "0" and rest.partition(".")[0] in ("2", "3") else None
