"""The gRPC form of 0.3 as an agent needs it: parameters to 1.0, and results from 1.0. Pure.

It is the inverse of `_v03`, which is what a client needs. The messages are those of HTTP+JSON, so
most conversions are in `_agent_rest_v03`.
"""

import re
from collections.abc import Mapping
from typing import Any

from .._agent_rest_v03 import PARAMS_FROM_V03_REST, RESULTS_TO_V03_REST
from .._dialects import JSON, Conversion, convert_each, without, without_none

__all__ = ["PARAMS_FROM_V03_GRPC", "RESULTS_TO_V03_GRPC"]

_TASK = re.compile(r"tasks/([^/]+)")
_PUSH = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]*)")

# Parameters


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

# Results


def _with_security(holder: JSON) -> JSON:
    """Return a card or a skill whose requirements have the name that they have in 0.3."""
    required = holder.get("securityRequirements")
    return without(holder, "security") | without_none(security=required)


def _card_to_v03(card: JSON) -> JSON:
    return {**_with_security(card), "skills": convert_each(_with_security)(card.get("skills", []))}


RESULTS_TO_V03_GRPC: Mapping[str, Conversion] = {**RESULTS_TO_V03_REST, "card": _card_to_v03}
"""By the kind of result of an operation; the others are the same in both versions."""
