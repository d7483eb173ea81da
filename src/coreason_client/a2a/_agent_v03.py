"""The conversions that an agent of version 0.3 needs: parameters to 1.0, and results to 0.3. Pure.

They are the inverse of those in `_dialects`, which a client needs.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ._dialects import (
    _STATES_TO_V03,
    JSON,
    Conversion,
    _message_from_v03,
    _message_to_v03,
    _parts_to_v03,
    _push_from_v03,
    convert_each,
    convert_members,
    convert_object,
    push_from_v03,
    push_to_v03,
    translate,
    without,
    without_none,
)

__all__ = ["PARAMS_FROM_V03", "RESULTS_TO_V03", "event_to_v03", "send_from_v03", "task_to_v03"]

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

# Results


def _status_to_v03(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(_STATES_TO_V03), message=convert_object(_message_to_v03)
    )


def _artifact_to_v03(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=_parts_to_v03)


def task_to_v03(task: JSON) -> JSON:
    """Convert a task of 1.0 to 0.3."""
    converted = convert_members(
        task,
        status=convert_object(_status_to_v03),
        artifacts=convert_each(_artifact_to_v03),
        history=convert_each(_message_to_v03),
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
    "message": _message_to_v03,
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

# Parameters


def _configuration_from_v03(configuration: JSON) -> JSON:
    rest = without(configuration, "blocking", "pushNotificationConfig")
    push = configuration.get("pushNotificationConfig")
    if isinstance(push, dict):
        rest["taskPushNotificationConfig"] = _push_from_v03(push)
    if configuration.get("blocking") is not None:
        rest["returnImmediately"] = not configuration["blocking"]
    return rest


def send_from_v03(params: JSON) -> JSON:
    """Convert the parameters of sending from 0.3 to 1.0."""
    return convert_members(
        params,
        message=convert_object(_message_from_v03),
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
