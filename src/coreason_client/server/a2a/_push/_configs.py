"""Push configurations: checked, stored and shown. No I/O.

Credentials and the token are secrets between the client and its webhook. They are stored, because
they are sent with every notification, and never shown again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from pydantic_core import from_json, to_json

from coreason_client.a2a.errors import PushNotificationNotSupportedError
from coreason_client.server.a2a._v03._conversions import RESULTS_TO_V03

from ...log.tasks import TaskRecord
from .._fold import JSON, Event
from .._incoming import wrong
from .._protocol import V03, V10
from ._urls import URLRules, WebhookURL

MAX_CONFIGS: Final = 10
"""The greatest number of configurations of a task."""
_MAX_ID: Final = 256  # characters
_MAX_SECRET: Final = 4096  # characters
_SCHEME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PushConfig:
    """A configuration; `version` is the protocol version of the client that made it."""

    id: str
    url: str
    token: str | None
    scheme: str | None
    credentials: str | None
    version: str

    @classmethod
    def parse(cls, given: object, rules: URLRules, version: str, path: str = "") -> Self:
        """Check a configuration of a client; `path` is that of its fields in error messages.

        Raises:
            InvalidParamsError: something is wrong with it; the error names the field.
        """
        if not isinstance(given, dict):
            raise wrong(path.rstrip(".") or "params", "must be an object")
        try:
            rules.parse(given.get("url"))
        except ValueError as error:
            raise wrong(f"{path}url", str(error)) from None
        scheme, credentials = _authentication(given.get("authentication"), path)
        return cls(
            config_id_of(given, path) or uuid4().hex,
            given["url"],
            _secret(given, "token", path),
            scheme,
            credentials,
            version,
        )

    def shown(self, task_id: str) -> JSON:
        """Return the configuration as a client gets it, without its secrets."""
        shown: JSON = {"taskId": task_id, "id": self.id, "url": self.url}
        if self.scheme is not None:
            shown["authentication"] = {"scheme": self.scheme}
        return shown

    def dump(self) -> bytes:
        """Return the configuration as it is stored."""
        return to_json([self.id, self.url, self.token, self.scheme, self.credentials, self.version])

    @classmethod
    def load(cls, stored: bytes) -> Self:
        """Return a configuration that was stored."""
        return cls(*from_json(stored))

    def target(self, rules: URLRules) -> WebhookURL:
        """Return the parts of the URL.

        Raises:
            ValueError: it is not allowed any more, because the settings have changed.
        """
        return rules.parse(self.url)

    @property
    def host(self) -> str:
        """The host of the URL, for log lines; the rest of it may be a secret."""
        return urlsplit(self.url).hostname or ""

    def dump_event(self, event: Event) -> bytes:
        """Return the body for an event that is a task."""
        return to_json(RESULTS_TO_V03["event"](event) if self.wants_tasks else event)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each notification that depend on the configuration."""
        media_type = "application/a2a+json" if self.version == V10 else "application/json"
        headers = {"Content-Type": media_type, "A2A-Version": self.version}
        if self.token is not None:
            headers["X-A2A-Notification-Token"] = self.token
        if self.scheme is not None and self.credentials is not None:
            headers["Authorization"] = f"{self.scheme} {self.credentials}"
        return headers

    @property
    def wants_tasks(self) -> bool:
        """True if each notification is a whole task, as in version 0.3."""
        return self.version == V03


def page_of(configs: Sequence[JSON], params: Mapping[str, Any]) -> JSON:
    """Return a page of configurations, which are ordered by their ids.

    Raises:
        InvalidParamsError: the size of the page is wrong.
    """
    size, after = params.get("pageSize"), params.get("pageToken")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise wrong("pageSize", "must be a whole number from 0 on")
    if after is not None and not isinstance(after, str):
        raise wrong("pageToken", "must be the nextPageToken of an earlier list")
    left = [config for config in configs if not after or config["id"] > after]
    page = left[: size or MAX_CONFIGS]
    return {"configs": page, "nextPageToken": page[-1]["id"] if len(page) < len(left) else ""}


def config_id_of(params: Mapping[str, Any], path: str = "") -> str | None:
    """Return the id of a configuration in the parameters, None if there is none.

    Raises:
        InvalidParamsError: it cannot be used.
    """
    given = params.get("id")
    if given is None or given == "":
        return None
    if not isinstance(given, str) or len(given) > _MAX_ID or not given.isprintable():
        raise wrong(f"{path}id", f"must be a string of at most {_MAX_ID} printable characters")
    return given


def _secret(given: Mapping[str, Any], name: str, path: str) -> str | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _MAX_SECRET or not _HEADER_VALUE.fullmatch(value):
        raise wrong(
            f"{path}{name}",
            f"must have at most {_MAX_SECRET} characters, all of them visible ASCII characters or "
            "spaces between them, because it is sent in a header",
        )
    return value


def _authentication(given: object, path: str) -> tuple[str | None, str | None]:
    if given is None:
        return None, None
    if not isinstance(given, dict):
        raise wrong(f"{path}authentication", "must be an object")
    scheme = given.get("scheme")
    credentials = _secret(given, "credentials", f"{path}authentication.")
    if scheme in (None, "") and credentials is None:
        return None, None
    if not isinstance(scheme, str) or len(scheme) > _MAX_ID or not _SCHEME.fullmatch(scheme):
        raise wrong(f"{path}authentication.scheme", "must be a name such as Bearer")
    return scheme, credentials


# A server without push notifications: callers need not check whether there are any


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
