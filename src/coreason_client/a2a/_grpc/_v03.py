"""The gRPC form of 0.3 as a dialect. Pure.

Its messages are those that HTTP+JSON of 0.3 uses, so the conversions are in `_rest_v03`. A request
names a task or a push configuration by one text, such as `tasks/{id}`.
"""

from dataclasses import replace

from .._dialects import JSON, without_none
from .._rest_v03 import V03_REST

__all__ = ["V03_GRPC"]


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
