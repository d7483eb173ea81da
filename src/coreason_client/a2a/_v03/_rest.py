"""The HTTP+JSON and gRPC forms of 0.3 as dialects: conversions to and from 1.0, and errors. Pure.

Servers of 0.3 do not use the JSON of the 0.3 specification here, but the ProtoJSON of its proto
file:

* A message has `content` instead of `parts`; a file is `{"file": {"fileWithUri"}}` or
  `{"fileWithBytes"}`, data is `{"data": {"data": {...}}}`.
* Roles and states are spelled as in 1.0, except that `TASK_STATE_CANCELLED` has two Ls.
* Events have the wrapper of 1.0; `statusUpdate` has `final`.
* A push configuration is named `tasks/{task}/pushNotificationConfigs/{id}`.
* An error is a status with `{"message"}`, and sometimes `{"type"}`; there is no code.
* `blocking` defaults to false, but 1.0 blocks by default, so it is always sent.

Requests contain only what the proto defines, because servers reject unknown fields. So
`referenceTaskIds`, the metadata of a cancel, and the media type of text are not sent. Responses
in the JSON-RPC form of 0.3 are also accepted.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from .. import errors
from .._dialects import V03
from ..errors import A2AHTTPError, A2AJSONRPCError
from ._shapes import (
    JSON,
    ROLES_FROM_V03,
    STATES_FROM_V03,
    card_from_v03,
    configuration_to_v03,
    convert_each,
    convert_members,
    convert_object,
    event_from_v03,
    part_from_v03,
    part_to_v03,
    push_from_v03,
    push_to_v03,
    translate,
    without,
    without_none,
)

_PUSH_NAME = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/(.*)")
_WRAPPERS = ("task", "message", "statusUpdate", "artifactUpdate")

# Parts


def part_to_rest(part: JSON) -> JSON:
    old = part_to_v03(part)
    found = without_none(metadata=old.get("metadata"))
    if old["kind"] == "text":
        return {"text": old["text"], **found}
    if old["kind"] == "data":
        return {"data": {"data": old["data"]}, **found}
    file = old["file"]
    about = without_none(mimeType=file.get("mimeType"), name=file.get("name"))
    if "uri" in file:
        return {"file": {"fileWithUri": file["uri"], **about}, **found}
    # The reference server expects base64 text as the bytes of this field, so it is encoded twice.
    twice = b64encode(file["bytes"].encode()).decode()
    return {"file": {"fileWithBytes": twice, **about}, **found}


def _part_from_rest(part: JSON) -> JSON:
    file, data = part.get("file"), part.get("data")
    if isinstance(file, dict):
        plain = without(file, "fileWithUri", "fileWithBytes") | without_none(
            uri=file.get("fileWithUri"), bytes=_decode_once(file.get("fileWithBytes"))
        )
        part = {**part, "file": plain}
    elif isinstance(data, dict) and "kind" not in part:
        part = {**part, "data": data.get("data", {})}
    return part_from_v03(part)


def _decode_once(value: object) -> object:
    """Return base64 text; decode it once if the reference server encoded it twice."""
    if not isinstance(value, str):
        return value
    try:
        inner = b64decode(value, validate=True)
        b64decode(inner, validate=True)
    except (Base64Error, ValueError):
        return value
    return inner.decode("ascii") if inner else value


# Messages, tasks and events


def message_to_rest(message: JSON) -> JSON:
    names = ("messageId", "contextId", "taskId", "role", "metadata", "extensions")
    kept = {name: message[name] for name in names if message.get(name)}
    return {**kept, "content": convert_each(part_to_rest)(message.get("parts", []))}


def message_from_rest(message: JSON) -> JSON:
    if "content" in message and "parts" not in message:
        message = {**without(message, "content"), "parts": message["content"]}
    return convert_members(
        without(message, "kind"),
        role=translate(ROLES_FROM_V03),
        parts=convert_each(_part_from_rest),
    )


_STATES_FROM_REST = {**STATES_FROM_V03, "TASK_STATE_CANCELLED": "TASK_STATE_CANCELED"}


def _status_from_rest(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(_STATES_FROM_REST), message=convert_object(message_from_rest)
    )


def _artifact_from_rest(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=convert_each(_part_from_rest))


def _task_from_rest(task: JSON) -> JSON:
    return convert_members(
        without(task, "kind"),
        status=convert_object(_status_from_rest),
        artifacts=convert_each(_artifact_from_rest),
        history=convert_each(message_from_rest),
    )


def _event_from_rest(event: JSON) -> JSON:
    if not any(name in event for name in _WRAPPERS) and "kind" in event:
        return event_from_v03(event)
    return convert_members(
        event,
        task=convert_object(_task_from_rest),
        message=convert_object(message_from_rest),
        statusUpdate=convert_object(
            lambda e: convert_members(e, status=convert_object(_status_from_rest))
        ),
        artifactUpdate=convert_object(
            lambda e: convert_members(e, artifact=convert_object(_artifact_from_rest))
        ),
    )


# Parameters


def _send_to_rest(params: JSON) -> JSON:
    old = configuration_to_v03(params.get("configuration") or {})
    configuration = {
        "blocking": old.get("blocking", True),
        **without_none(
            acceptedOutputModes=old.get("acceptedOutputModes"),
            historyLength=old.get("historyLength"),
            pushNotification=old.get("pushNotificationConfig"),
        ),
    }
    return {
        "message": convert_object(message_to_rest)(params.get("message")),
        "configuration": configuration,
        **without_none(metadata=params.get("metadata")),
    }


def _keep_members(*names: str) -> Any:
    return lambda params: {name: params[name] for name in names if name in params}


def _push_to_rest(params: JSON) -> JSON:
    task, inner = params.get("taskId", ""), push_to_v03(params)["pushNotificationConfig"]
    name = f"tasks/{task}/pushNotificationConfigs/{inner.get('id', '')}"
    config = {"name": name, "pushNotificationConfig": inner}
    return {
        "taskId": task,
        "parent": f"tasks/{task}",
        "configId": inner.get("id", ""),
        "config": config,
    }


def _push_from_rest(config: JSON) -> JSON:
    flat = push_from_v03(without(config, "name"))
    name = _PUSH_NAME.fullmatch(str(config.get("name", "")))
    return without_none(taskId=name[1], id=name[2] or None) | flat if name else flat


def _pushes_from_rest(page: Any) -> JSON:
    if isinstance(page, list):
        return {"configs": convert_each(_push_from_rest)(page)}
    return convert_members(page, configs=convert_each(_push_from_rest))


V03_REST = replace(
    V03,
    media_type="application/json",
    paths={
        "send_message": ("POST", "/v1/message:send"),
        "send_message_stream": ("POST", "/v1/message:stream"),
        "get_task": ("GET", "/v1/tasks/{id}"),
        "cancel_task": ("POST", "/v1/tasks/{id}:cancel"),
        "resubscribe": ("POST", "/v1/tasks/{id}:subscribe"),
        "create_push_config": ("POST", "/v1/tasks/{taskId}/pushNotificationConfigs"),
        "get_push_config": ("GET", "/v1/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "list_push_configs": ("GET", "/v1/tasks/{taskId}/pushNotificationConfigs"),
        "delete_push_config": ("DELETE", "/v1/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "get_extended_card": ("GET", "/v1/card"),
    },
    encode={
        "send_message": _send_to_rest,
        "send_message_stream": _send_to_rest,
        "get_task": _keep_members("id", "historyLength"),
        "cancel_task": _keep_members("id"),
        "resubscribe": _keep_members("id"),
        "create_push_config": _push_to_rest,
        "get_push_config": _keep_members("taskId", "id"),
        "list_push_configs": _keep_members("taskId", "pageSize", "pageToken"),
        "delete_push_config": _keep_members("taskId", "id"),
        "get_extended_card": lambda params: {},
    },
    decode={
        "event": convert_object(_event_from_rest),
        "task": convert_object(_task_from_rest),
        "push": convert_object(_push_from_rest),
        "pushes": _pushes_from_rest,
        "card": convert_object(card_from_v03),
    },
)

# Errors

_BY_STATUS: Mapping[int, type[A2AJSONRPCError]] = {
    400: errors.InvalidRequestError,
    404: errors.TaskNotFoundError,
    409: errors.TaskNotCancelableError,
    415: errors.ContentTypeNotSupportedError,
    422: errors.InvalidParamsError,
    501: errors.UnsupportedOperationError,
}
_BY_OPERATION: Mapping[tuple[int, str], type[A2AJSONRPCError]] = {
    (404, "get_extended_card"): errors.ExtendedAgentCardNotConfiguredError,
    (501, "create_push_config"): errors.PushNotificationNotSupportedError,
    (501, "get_push_config"): errors.PushNotificationNotSupportedError,
    (501, "list_push_configs"): errors.PushNotificationNotSupportedError,
    (501, "delete_push_config"): errors.PushNotificationNotSupportedError,
}
_BY_TYPE: Mapping[str, type[A2AJSONRPCError]] = {
    **{kind.__name__: kind for kind in errors.A2AJSONRPCError.__subclasses__()},
    "AuthenticatedExtendedCardNotConfiguredError": errors.ExtendedAgentCardNotConfiguredError,
}


def protocol_error(operation: str, error: A2AHTTPError) -> A2AHTTPError | A2AJSONRPCError:
    """Return the protocol error for an HTTP error; the same error if the agent did not send it.

    Errors of the agent have a JSON body with a `message`; those of routers and proxies do not.
    The reference server has no route for deleting a push configuration and answers with 405.
    """
    kind: type[A2AJSONRPCError] | None
    if (error.status, operation) == (405, "delete_push_config"):
        kind, message = errors.UnsupportedOperationError, str(error)
    else:
        kind, message = _error_class(operation, error)
    if kind is None:
        return error
    return kind(
        message,
        status=error.status,
        headers=error.headers,
        body=error.body,
        retry_after=error.retry_after,
    )


def _error_class(operation: str, error: A2AHTTPError) -> tuple[type[A2AJSONRPCError] | None, str]:
    try:
        problem = from_json(error.body or b"")
    except ValueError:
        return None, ""
    message = problem.get("message") if isinstance(problem, dict) else None
    if not isinstance(message, str):
        return None, ""
    status = error.status or 0
    kind = _BY_TYPE.get(str(problem.get("type")))
    return kind or _BY_OPERATION.get((status, operation)) or _BY_STATUS.get(status), message


# Over gRPC: the same messages; a request names a task by one text, such as `tasks/{id}`


def _task_name(params: JSON) -> JSON:
    return {"name": f"tasks/{params.get('id', '')}"} | without_none(
        historyLength=params.get("historyLength")
    )


def _push_name(params: JSON) -> JSON:
    task, config = params.get("taskId", ""), params.get("id") or ""
    return {"name": f"tasks/{task}/pushNotificationConfigs/{config}"}


def _push_parent(params: JSON) -> JSON:
    return {"parent": f"tasks/{params.get('taskId', '')}"} | without_none(
        pageSize=params.get("pageSize"), pageToken=params.get("pageToken")
    )


V03_GRPC = replace(
    V03_REST,
    encode={
        **V03_REST.encode,
        "get_task": _task_name,
        "cancel_task": _task_name,
        "resubscribe": _task_name,
        "get_push_config": _push_name,
        "list_push_configs": _push_parent,
        "delete_push_config": _push_name,
    },
)
