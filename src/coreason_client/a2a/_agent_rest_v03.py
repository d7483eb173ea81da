"""The HTTP+JSON form of 0.3 as an agent needs it: parameters to 1.0, and results from 1.0. Pure.

It is the inverse of `_rest_v03`, which describes the form and is what a client needs.
"""

import re
from collections.abc import Mapping
from typing import Any

from ._agent_v03 import _ENDS_STREAM
from ._dialects import (
    JSON,
    Conversion,
    _push_from_v03,
    convert_each,
    convert_members,
    convert_object,
    push_to_v03,
    translate,
    without,
    without_none,
)
from ._rest_v03 import _message_from_rest, _message_to_rest, _part_to_rest

__all__ = ["PARAMS_FROM_V03_REST", "RESULTS_TO_V03_REST"]

_STATES = {"TASK_STATE_CANCELED": "TASK_STATE_CANCELLED"}
_UNDERSCORE = re.compile(r"_([a-z0-9])")
_FREE_FORM = ("metadata", "data")

# Results


def _status_to_rest(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(_STATES), message=convert_object(_message_to_rest)
    )


def _artifact_to_rest(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=convert_each(_part_to_rest))


def _task_to_rest(task: JSON) -> JSON:
    return convert_members(
        task,
        status=convert_object(_status_to_rest),
        artifacts=convert_each(_artifact_to_rest),
        history=convert_each(_message_to_rest),
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
        message=_message_to_rest,
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

# Parameters


def _camel_case(value: Any) -> Any:
    """Return an object with the JSON names of its fields: ProtoJSON also allows the proto names.

    What is free-form stays as it is.
    """
    if isinstance(value, list):
        return [_camel_case(member) for member in value]
    if not isinstance(value, dict):
        return value
    return {
        _UNDERSCORE.sub(lambda found: found[1].upper(), name): (
            member if name in _FREE_FORM else _camel_case(member)
        )
        for name, member in value.items()
    }


def _send_from_rest(given_params: JSON) -> JSON:
    params = _camel_case(given_params)
    given = params.get("configuration")
    old = given if isinstance(given, dict) else {}
    configuration = without(old, "blocking", "pushNotification")
    # Without `blocking` a client waits, as over JSON-RPC.
    configuration["returnImmediately"] = old.get("blocking") is False
    if isinstance(old.get("pushNotification"), dict):
        configuration["taskPushNotificationConfig"] = _push_from_v03(old["pushNotification"])
    # The name of the message is that of its proto field or, in some clients, that of its JSON.
    message = params.get("request", params.get("message"))
    return {
        "message": convert_object(_message_from_rest)(message),
        "configuration": configuration,
        **without_none(metadata=params.get("metadata")),
    }


def _push_from_rest(given_params: JSON) -> JSON:
    params = _camel_case(given_params)
    config = params.get("config", params)
    inner = config.get("pushNotificationConfig") if isinstance(config, dict) else None
    flat: JSON = _push_from_v03(inner) if isinstance(inner, dict) else {}
    return {**flat, **without_none(taskId=params.get("taskId"))}


PARAMS_FROM_V03_REST: Mapping[str, Any] = {
    "send_message": _send_from_rest,
    "send_message_stream": _send_from_rest,
    "create_push_config": _push_from_rest,
}
"""By the name of the operation; those of the others are the same in both versions."""
