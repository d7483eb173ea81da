"""What the operations on tasks need of push notifications.

The class here is that of a server without them, so callers need not check whether there are any.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from coreason_client.a2a.errors import PushNotificationNotSupportedError

from ...log.tasks import TaskRecord
from ._configs import PushConfig

__all__ = ["PushHook", "not_supported"]


def not_supported() -> PushNotificationNotSupportedError:
    """Return the error for a server without push notifications."""
    return PushNotificationNotSupportedError("This agent sends no push notifications.")


class PushHook:
    """A server without push notifications."""

    def parse(self, configuration: Mapping[str, Any], version: str) -> PushConfig | None:
        """Return the push configuration that a message is sent with, None if there is none.

        Raises:
            InvalidParamsError: something is wrong with it.
            PushNotificationNotSupportedError: the server sends no notifications.
        """
        if configuration.get("taskPushNotificationConfig") is not None:
            raise not_supported()
        return None

    async def register(self, record: TaskRecord, config: PushConfig) -> None:
        """Send the events of a task from now on.

        Raises:
            InvalidParamsError: the task has too many configurations.
        """

    async def turn_added(self, task_id: UUID) -> None:
        """Continue deliveries that wait for the user, because the task goes on."""
