"""The conversions that an agent of version 0.3 needs: what a client sends, and what it reads."""

from collections.abc import Callable, Mapping

from coreason_client.a2a._dialects import (
    _STATES_TO_V03,
    JSON,
    _message_from_v03,
    _message_to_v03,
    _parts_to_v03,
    _push_from_v03,
    convert_each,
    convert_members,
    convert_object,
    translate,
    without,
)

__all__ = ["event_to_v03", "send_from_v03", "task_to_v03"]


def _status_to_v03(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(_STATES_TO_V03), message=convert_object(_message_to_v03)
    )


def _artifact_to_v03(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=_parts_to_v03)


def task_to_v03(task: JSON) -> JSON:
    swapped = convert_members(
        task,
        status=convert_object(_status_to_v03),
        artifacts=convert_each(_artifact_to_v03),
        history=convert_each(_message_to_v03),
    )
    return {**swapped, "kind": "task"}


_PAYLOADS_TO_V03: Mapping[str, Callable[[JSON], JSON]] = {
    "task": task_to_v03,
    "message": _message_to_v03,
    "statusUpdate": lambda event: {
        **convert_members(event, status=convert_object(_status_to_v03)),
        "kind": "status-update",
    },
    "artifactUpdate": lambda event: {
        **convert_members(event, artifact=convert_object(_artifact_to_v03)),
        "kind": "artifact-update",
    },
}


def event_to_v03(wrapper: JSON) -> JSON:
    """Turn the wrapper of 1.0 into the bare object of 0.3."""
    for key, convert in _PAYLOADS_TO_V03.items():
        if isinstance(wrapper.get(key), dict):
            return convert(wrapper[key])
    return wrapper


def _configuration_from_v03(configuration: JSON) -> JSON:
    rest = without(configuration, "blocking", "pushNotificationConfig")
    push = configuration.get("pushNotificationConfig")
    if isinstance(push, dict):
        rest["taskPushNotificationConfig"] = _push_from_v03(push)
    if configuration.get("blocking") is not None:
        rest["returnImmediately"] = not configuration["blocking"]
    return rest


def send_from_v03(params: JSON) -> JSON:
    """Turn the parameters of sending from 0.3 into 1.0."""
    return convert_members(
        params,
        message=convert_object(_message_from_v03),
        configuration=convert_object(_configuration_from_v03),
    )
