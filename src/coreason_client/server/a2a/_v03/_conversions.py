"""The conversions that an agent of 0.3 needs: parameters to 1.0, and results to 0.3. Pure.

They are the inverse of those that a client needs (`coreason_client.a2a._v03`), for each binding.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from coreason_client.a2a._v03._rest import message_from_rest, message_to_rest, part_to_rest
from coreason_client.a2a._v03._shapes import (
    JSON,
    STATES_TO_V03,
    Conversion,
    convert_each,
    convert_members,
    convert_object,
    message_from_v03,
    message_to_v03,
    parts_to_v03,
    push_config_from_v03,
    push_from_v03,
    push_to_v03,
    translate,
    without,
    without_none,
)

from .._protocol import with_json_names

_ENDS_STREAM = frozenset(
    {
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_REJECTED",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_AUTH_REQUIRED",
    }
)

# JSON-RPC: results


def _status_to_v03(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(STATES_TO_V03), message=convert_object(message_to_v03)
    )


def _artifact_to_v03(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=parts_to_v03)


def task_to_v03(task: JSON) -> JSON:
    """Convert a task of 1.0 to 0.3."""
    converted = convert_members(
        task,
        status=convert_object(_status_to_v03),
        artifacts=convert_each(_artifact_to_v03),
        history=convert_each(message_to_v03),
    )
    return {**converted, "kind": "task"}


def _status_update_to_v03(event: JSON) -> JSON:
    status = event.get("status")
    final = isinstance(status, dict) and status.get("state") in _ENDS_STREAM
    converted = convert_members(event, status=convert_object(_status_to_v03))
    return {"final": final, **converted, "kind": "status-update"}


def _artifact_update_to_v03(event: JSON) -> JSON:
    converted = convert_members(event, artifact=convert_object(_artifact_to_v03))
    return {**converted, "kind": "artifact-update"}


_PAYLOADS_TO_V03: Mapping[str, Callable[[JSON], JSON]] = {
    "task": task_to_v03,
    "message": message_to_v03,
    "statusUpdate": _status_update_to_v03,
    "artifactUpdate": _artifact_update_to_v03,
}


def event_to_v03(event: JSON) -> JSON:
    """Convert the wrapper of 1.0 to the bare object of 0.3."""
    for key, convert in _PAYLOADS_TO_V03.items():
        if isinstance(event.get(key), dict):
            return convert(event[key])
    return event


def _pushes_to_v03(result: JSON) -> list[Any]:
    return [push_to_v03(config) for config in result.get("configs", ())]


RESULTS_TO_V03: Mapping[str, Conversion] = {
    "event": event_to_v03,
    "task": task_to_v03,
    "push": push_to_v03,
    "pushes": _pushes_to_v03,
    "nothing": lambda _: None,
}
"""By the kind of result of an operation; the others are the same in both versions."""

# JSON-RPC: parameters


def _configuration_from_v03(configuration: JSON) -> JSON:
    rest = without(configuration, "blocking", "pushNotificationConfig")
    push = configuration.get("pushNotificationConfig")
    if isinstance(push, dict):
        rest["taskPushNotificationConfig"] = push_config_from_v03(push)
    if configuration.get("blocking") is not None:
        rest["returnImmediately"] = not configuration["blocking"]
    return rest


def send_from_v03(params: JSON) -> JSON:
    """Convert the parameters of sending from 0.3 to 1.0."""
    return convert_members(
        params,
        message=convert_object(message_from_v03),
        configuration=convert_object(_configuration_from_v03),
    )


def _push_reference_from_v03(params: JSON) -> JSON:
    rest = without(params, "id", "pushNotificationConfigId")
    return {
        **rest,
        **without_none(taskId=params.get("id"), id=params.get("pushNotificationConfigId")),
    }


PARAMS_FROM_V03: Mapping[str, Conversion] = {
    "send_message": send_from_v03,
    "send_message_stream": send_from_v03,
    "create_push_config": push_from_v03,
    "get_push_config": _push_reference_from_v03,
    "list_push_configs": _push_reference_from_v03,
    "delete_push_config": _push_reference_from_v03,
}
"""By the name of the operation; those of the others are the same in both versions."""


_STATES = {"TASK_STATE_CANCELED": "TASK_STATE_CANCELLED"}

# HTTP+JSON: results


def _status_to_rest(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(_STATES), message=convert_object(message_to_rest)
    )


def _artifact_to_rest(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=convert_each(part_to_rest))


def _task_to_rest(task: JSON) -> JSON:
    return convert_members(
        task,
        status=convert_object(_status_to_rest),
        artifacts=convert_each(_artifact_to_rest),
        history=convert_each(message_to_rest),
    )


def _status_update_to_rest(update: JSON) -> JSON:
    final = update["status"]["state"] in _ENDS_STREAM
    converted = convert_members(update, status=_status_to_rest)
    return {**converted, "final": final}


def _artifact_update_to_rest(update: JSON) -> JSON:
    return convert_members(update, artifact=_artifact_to_rest)


def _event_to_rest(event: JSON) -> JSON:
    return convert_members(
        event,
        task=_task_to_rest,
        message=message_to_rest,
        statusUpdate=_status_update_to_rest,
        artifactUpdate=_artifact_update_to_rest,
    )


def _push_to_rest(config: JSON) -> JSON:
    inner = push_to_v03(config)["pushNotificationConfig"]
    name = f"tasks/{config.get('taskId', '')}/pushNotificationConfigs/{inner.get('id', '')}"
    return {"name": name, "pushNotificationConfig": inner}


def _pushes_to_rest(page: JSON) -> JSON:
    return convert_members(page, configs=convert_each(_push_to_rest))


RESULTS_TO_V03_REST: Mapping[str, Conversion] = {
    "event": _event_to_rest,
    "task": _task_to_rest,
    "push": _push_to_rest,
    "pushes": _pushes_to_rest,
}
"""By the kind of result of an operation; the others are the same in both versions."""

# HTTP+JSON: parameters


def _send_from_rest(given_params: JSON) -> JSON:
    params = with_json_names(given_params)
    given = params.get("configuration")
    old = given if isinstance(given, dict) else {}
    configuration = without(old, "blocking", "pushNotification")
    # Without `blocking` a client waits, as over JSON-RPC.
    configuration["returnImmediately"] = old.get("blocking") is False
    if isinstance(old.get("pushNotification"), dict):
        configuration["taskPushNotificationConfig"] = push_config_from_v03(old["pushNotification"])
    # The name of the message is that of its proto field or, in some clients, that of its JSON.
    message = params.get("request", params.get("message"))
    return {
        "message": convert_object(message_from_rest)(message),
        "configuration": configuration,
        **without_none(metadata=params.get("metadata")),
    }


def _push_from_rest(given_params: JSON) -> JSON:
    params = with_json_names(given_params)
    config = params.get("config", params)
    inner = config.get("pushNotificationConfig") if isinstance(config, dict) else None
    flat: JSON = push_config_from_v03(inner) if isinstance(inner, dict) else {}
    return {**flat, **without_none(taskId=params.get("taskId"))}


PARAMS_FROM_V03_REST: Mapping[str, Any] = {
    "send_message": _send_from_rest,
    "send_message_stream": _send_from_rest,
    "create_push_config": _push_from_rest,
}
"""By the name of the operation; those of the others are the same in both versions."""


_TASK = re.compile(r"tasks/([^/]+)")
_PUSH = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]*)")

# gRPC: parameters; most are those of HTTP+JSON


def _matched(pattern: re.Pattern[str], params: JSON, member: str, form: str) -> re.Match[str]:
    found = pattern.fullmatch(params.get(member, ""))
    if found is None:
        raise ValueError(f"{member} must be {form}")
    return found


def _send_from_request(params: JSON) -> JSON:
    """Convert the parameters of sending; in a message of protobuf, false is the same as absent.

    So a client without a configuration waits, and one with a configuration says what it wants.
    """
    configuration = params.get("configuration")
    if isinstance(configuration, dict):
        params = {**params, "configuration": {"blocking": False, **configuration}}
    converted: JSON = PARAMS_FROM_V03_REST["send_message"](params)
    return converted


def _task_from_name(params: JSON) -> JSON:
    task = _matched(_TASK, params, "name", "tasks/{id}")[1]
    return {**without(params, "name"), "id": task}


def _push_from_name(params: JSON) -> JSON:
    form = "tasks/{id}/pushNotificationConfigs/{id}"
    task, config = _matched(_PUSH, params, "name", form).groups()
    return {"taskId": task} | without_none(id=config or None)


def _pushes_from_parent(params: JSON) -> JSON:
    task = _matched(_TASK, params, "parent", "tasks/{id}")[1]
    return {**without(params, "parent"), "taskId": task}


def _push_from_request(params: JSON) -> JSON:
    config = params.get("config", {})
    # Some clients name the task only in the configuration.
    named = _PUSH.fullmatch(config.get("name", ""))
    if named and not params.get("parent"):
        task = named[1]
    else:
        task = _matched(_TASK, params, "parent", "tasks/{id}")[1]
    ids = without_none(id=params.get("configId") or (named[2] if named else None) or None)
    converted: JSON = PARAMS_FROM_V03_REST["create_push_config"]({"taskId": task, "config": config})
    return {**ids, **converted}


PARAMS_FROM_V03_GRPC: Mapping[str, Any] = {
    **PARAMS_FROM_V03_REST,
    "send_message": _send_from_request,
    "send_message_stream": _send_from_request,
    "get_task": _task_from_name,
    "cancel_task": _task_from_name,
    "resubscribe": _task_from_name,
    "create_push_config": _push_from_request,
    "get_push_config": _push_from_name,
    "list_push_configs": _pushes_from_parent,
    "delete_push_config": _push_from_name,
}
"""By the name of the operation. A conversion raises a `ValueError` for a wrong name."""

# gRPC: results; most are those of HTTP+JSON


def _with_security(holder: JSON) -> JSON:
    """Return a card or a skill whose requirements have the name that they have in 0.3."""
    required = holder.get("securityRequirements")
    return without(holder, "security") | without_none(security=required)


def _card_to_v03(card: JSON) -> JSON:
    return {**_with_security(card), "skills": convert_each(_with_security)(card.get("skills", []))}


RESULTS_TO_V03_GRPC: Mapping[str, Conversion] = {**RESULTS_TO_V03_REST, "card": _card_to_v03}
"""By the kind of result of an operation; the others are the same in both versions."""
