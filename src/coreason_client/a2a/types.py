"""The objects of the A2A protocol, the same for both dialects.

Attributes are the snake_case of the protocol's names; on the wire they are camelCase, in the shape
of version 1.0 (`_v03` converts from and to 0.3). Validation is lenient: unknown fields and
unknown enum values are kept, and members that ProtoJSON omits because they have a default value
(`""`, `[]`, `false`, the enum value 0) may be absent or null.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
)
from pydantic import model_serializer as serializer
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

__all__ = [
    "APIKeySecurityScheme",
    "AgentCapabilities",
    "AgentCard",
    "AgentCardSignature",
    "AgentExtension",
    "AgentInterface",
    "AgentProvider",
    "AgentSkill",
    "Artifact",
    "AuthenticationInfo",
    "CancelTaskRequest",
    "DeleteTaskPushNotificationConfigRequest",
    "Event",
    "GetExtendedAgentCardRequest",
    "GetTaskPushNotificationConfigRequest",
    "GetTaskRequest",
    "HTTPAuthSecurityScheme",
    "ListTaskPushNotificationConfigsRequest",
    "ListTaskPushNotificationConfigsResponse",
    "ListTasksRequest",
    "ListTasksResponse",
    "Message",
    "MessageSendConfiguration",
    "MutualTlsSecurityScheme",
    "OAuth2SecurityScheme",
    "OpenIdConnectSecurityScheme",
    "Part",
    "Role",
    "SecurityRequirement",
    "SecurityScheme",
    "SendMessageConfiguration",
    "SendMessageRequest",
    "SubscribeToTaskRequest",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskPushNotificationConfig",
    "TaskResubscriptionRequest",
    "TaskState",
    "TaskStatus",
    "TaskStatusUpdateEvent",
    "UnknownEvent",
]

Item = TypeVar("Item")


class _NullIs:
    """Accepts null for a member that ProtoJSON omits, as its default value.

    A union of two schemas, because the common case then stays inside pydantic-core.
    """

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        null = core_schema.no_info_after_validator_function(
            lambda _: self._make(), core_schema.none_schema()
        )
        return core_schema.union_schema([handler(source), null], mode="left_to_right")


Many = Annotated[list[Item], Field(fail_fast=True), _NullIs(list)]
Text = Annotated[str, _NullIs(str)]
Flag = Annotated[bool, _NullIs(bool)]
Struct: TypeAlias = dict[str, Any]


class TaskState(StrEnum):
    """The state of a task."""

    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

    @classmethod
    def _missing_(cls, value: object) -> "TaskState | None":
        # ProtoJSON may write the number of an enum value; some agents write values of 0.3 in 1.0.
        return _by_number(list(cls), value) or _by_v03_value(cls, value)

    @property
    def is_terminal(self) -> bool:
        """True if the task is over."""
        return self in _TERMINAL

    @property
    def is_interrupted(self) -> bool:
        """True if the task waits for the user."""
        return self in _INTERRUPTED


_TERMINAL = frozenset(
    {TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED}
)
_INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
_COMPLETED = "Task completed successfully"  # in every status of LangGraph


class Role(StrEnum):
    """The sender of a message."""

    UNSPECIFIED = "ROLE_UNSPECIFIED"
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"

    @classmethod
    def _missing_(cls, value: object) -> "Role | None":
        return _by_number(list(cls), value) or _by_v03_value(cls, value)


_Member = TypeVar("_Member", bound=StrEnum)


def _by_number(members: list[_Member], value: object) -> _Member | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(members):
        return members[value]
    return None


def _by_v03_value(kind: type[_Member], value: object) -> _Member | None:
    """Return the member for a value of 0.3, such as `input-required`."""
    if not isinstance(value, str) or not value.islower():
        return None
    return kind.__members__.get(value.replace("-", "_").upper())


# Unknown values stay strings or numbers, so they neither fail nor get lost.
AnyState = Annotated[TaskState | str | int, Field(union_mode="left_to_right")]
AnyRole = Annotated[Role | str | int, Field(union_mode="left_to_right")]


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,  # building all models takes 0.1 s; a program uses few of them
        extra="allow",
        frozen=True,
        populate_by_name=True,
        protected_namespaces=(),
    )

    def dump(self) -> dict[str, Any]:
        """Return the JSON object of protocol 1.0; fields that are None are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_json(self) -> str:
        """Return the JSON of protocol 1.0; fields that are None are left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


# Content

# ProtoJSON writes the standard base64 alphabet and reads both.
_URL_SAFE = str.maketrans("-_", "+/")


class Part(_Model):
    """A piece of content: one of `text`, `raw` (base64), `url` or `data` is set."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = None
    metadata: Struct | None = None
    filename: str | None = None
    media_type: str | None = None

    @classmethod
    def from_bytes(
        cls, content: bytes, *, filename: str | None = None, media_type: str | None = None
    ) -> Self:
        """Create a part with the content of a file.

        Args:
            content: the bytes of the file.
            filename: its name.
            media_type: its media type, such as "image/png".
        """
        raw = b64encode(content).decode()
        return cls(raw=raw, filename=filename, media_type=media_type)

    @property
    def content(self) -> bytes | None:
        """The bytes of `raw`, None if it is not set.

        Raises:
            ValueError: it is not base64.
        """
        return None if self.raw is None else b64decode(self.raw.translate(_URL_SAFE), validate=True)

    @serializer(mode="wrap")
    def _keep_null_data(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # `data` may be any JSON value, so null differs from no data.
        fields: dict[str, Any] = handler(self)
        if self.data is None and "data" in self.model_fields_set:
            fields["data"] = None
        return fields


def _joined(parts: Iterable[Part]) -> str:
    return "".join([part.text for part in parts if part.text])


class Message(_Model):
    """A message of the user or the agent."""

    message_id: Text = Field(default_factory=lambda: str(uuid4()))
    context_id: str | None = None
    task_id: str | None = None
    role: AnyRole = Role.UNSPECIFIED
    parts: Many[Part] = Field(default_factory=list)
    metadata: Struct | None = None
    extensions: Many[str] = Field(default_factory=list)
    reference_task_ids: Many[str] = Field(default_factory=list)

    @classmethod
    def user(
        cls, text: str, *, context_id: str | None = None, task_id: str | None = None
    ) -> "Message":
        """Create a message of the user from text.

        Args:
            text: the text.
            context_id: the conversation that it belongs to.
            task_id: the task that it answers.
        """
        return cls(role=Role.USER, parts=[Part(text=text)], context_id=context_id, task_id=task_id)

    @property
    def text(self) -> str:
        """The text of its parts."""
        return _joined(self.parts)

    @property
    def status_text(self) -> str:
        """Empty: a message has no status."""
        return ""


class Artifact(_Model):
    """A result of a task."""

    artifact_id: Text = ""
    name: str | None = None
    description: str | None = None
    parts: Many[Part] = Field(default_factory=list)
    metadata: Struct | None = None
    extensions: Many[str] = Field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of its parts."""
        return _joined(self.parts)


# Tasks and events


class TaskStatus(_Model):
    """The state of a task, with a message of the agent."""

    state: AnyState = TaskState.UNSPECIFIED
    message: Message | None = None
    timestamp: str | None = None

    @property
    def text(self) -> str:
        """The text of its message."""
        return "" if self.message is None else self.message.text

    @property
    def is_terminal(self) -> bool:
        """True if the task is over."""
        return self.state in _TERMINAL

    @property
    def is_interrupted(self) -> bool:
        """True if the task waits for the user."""
        return self.state in _INTERRUPTED


# Some agents send null for a status that has not changed.
AnyStatus = Annotated[TaskStatus, _NullIs(TaskStatus)]


class Task(_Model):
    """A unit of work of an agent."""

    id: str
    context_id: str | None = None
    status: AnyStatus = Field(default_factory=TaskStatus)
    artifacts: Many[Artifact] = Field(default_factory=list)
    history: Many[Message] = Field(default_factory=list)
    metadata: Struct | None = None

    @property
    def text(self) -> str:
        """The answer: the text of the artifacts.

        If there is none and the task is over or waits for the user, it is the text of the status,
        or else of the last messages of the agent in the history.
        """
        text = "".join([artifact.text for artifact in self.artifacts])
        if text or not (self.status.is_terminal or self.status.is_interrupted):
            return text
        return (
            answer_in_history(self)
            or self.status.text
            or "".join([message.text for message in latest_messages(self)])
        )

    @property
    def status_text(self) -> str:
        """The text of the status, which is not part of the answer while the task is running."""
        return self.status.text


def latest_messages(task: Task) -> list[Message]:
    """Return the messages in a task's history after the last one of the user."""
    found: list[Message] = []
    for message in reversed(task.history):
        if message.role == Role.USER:
            break
        found.append(message)
    return found[::-1]


def answer_in_history(task: Task) -> str:
    """Return the last text in the history if the status only says that the task is complete.

    So does LangGraph, whose finished tasks have no artifacts; other agents answer in the status.
    """
    if task.status.text != _COMPLETED:
        return ""
    texts = [message.text for message in latest_messages(task)]
    return next(filter(None, reversed(texts)), "")


class TaskStatusUpdateEvent(_Model):
    """A change of a task's status. `final` is a flag of 0.3: no event follows."""

    task_id: Text = ""
    context_id: str | None = None
    status: AnyStatus = Field(default_factory=TaskStatus)
    metadata: Struct | None = None
    final: bool | None = None
    _answer: str | None = PrivateAttr(None)  # set by a stream, which knows the earlier events

    @property
    def text(self) -> str:
        """The part of the answer in the status; usually empty.

        Only a status that ends the task or waits for the user is an answer, and in a stream only
        if the agent has sent no artifact and no message.
        """
        if self._answer is not None:
            return self._answer
        return self.status.text if self.status.is_terminal or self.status.is_interrupted else ""

    @property
    def status_text(self) -> str:
        """The text of the status."""
        return self.status.text


class TaskArtifactUpdateEvent(_Model):
    """A change of an artifact: parts were added (`append`), or it was created or replaced."""

    task_id: Text = ""
    context_id: str | None = None
    artifact: Artifact
    append: Flag = False
    last_chunk: Flag = False
    metadata: Struct | None = None

    @property
    def text(self) -> str:
        """The text of the parts in this event."""
        return _joined(self.artifact.parts)

    @property
    def status_text(self) -> str:
        """Empty: an artifact has no status."""
        return ""


class UnknownEvent(_Model):
    """An event that this version of the protocol does not define; its JSON is kept unchanged."""

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON object."""
        return dict(self.model_extra or {})

    @property
    def text(self) -> str:
        """Empty: an unknown event has no known text."""
        return ""

    @property
    def status_text(self) -> str:
        """Empty: an unknown event has no known text."""
        return ""


Event: TypeAlias = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent | UnknownEvent
"""The type that a stream yields and that `send_message` returns."""


# The card


class AgentProvider(_Model):
    """The operator of an agent."""

    url: Text = ""
    organization: Text = ""


class AgentInterface(_Model):
    """The URL and protocol of an agent; `protocol_version` is empty if the card has none."""

    url: Text = ""
    protocol_binding: Text = ""
    protocol_version: Text = ""
    tenant: str | None = None


class AgentExtension(_Model):
    """An extension of the protocol that the agent supports."""

    uri: Text = ""
    description: str | None = None
    required: Flag = False
    params: Struct | None = None


class AgentCapabilities(_Model):
    """The optional features that the agent supports."""

    streaming: bool | None = None
    push_notifications: bool | None = None
    extensions: Many[AgentExtension] = Field(default_factory=list)
    extended_agent_card: bool | None = None


class SecurityRequirement(_Model):
    """Security schemes that are required together; `list` has the scopes of each."""

    schemes: dict[str, Any] = Field(default_factory=dict)


class AgentSkill(_Model):
    """A skill of an agent."""

    id: Text = ""
    name: Text = ""
    description: Text = ""
    tags: Many[str] = Field(default_factory=list)
    examples: Many[str] = Field(default_factory=list)
    input_modes: Many[str] = Field(default_factory=list)
    output_modes: Many[str] = Field(default_factory=list)
    security_requirements: Many[SecurityRequirement] = Field(default_factory=list)


class APIKeySecurityScheme(_Model):
    """An API key in a header, the query or a cookie."""

    description: str | None = None
    location: Text = ""
    name: Text = ""


class HTTPAuthSecurityScheme(_Model):
    """An `Authorization` header."""

    description: str | None = None
    scheme: Text = ""
    bearer_format: str | None = None


class OAuth2SecurityScheme(_Model):
    """OAuth 2; the credential is a token, or `ClientCredentials`, which request one."""

    description: str | None = None
    flows: Struct | None = None
    oauth2_metadata_url: str | None = None


class OpenIdConnectSecurityScheme(_Model):
    """OpenID Connect; the credential is a token, or `ClientCredentials`, which request one."""

    description: str | None = None
    open_id_connect_url: Text = ""


class MutualTlsSecurityScheme(_Model):
    """A client certificate; configure it in the HTTP client."""

    description: str | None = None


class SecurityScheme(_Model):
    """An authentication scheme: one of these is set."""

    api_key_security_scheme: APIKeySecurityScheme | None = None
    http_auth_security_scheme: HTTPAuthSecurityScheme | None = None
    oauth2_security_scheme: OAuth2SecurityScheme | None = None
    open_id_connect_security_scheme: OpenIdConnectSecurityScheme | None = None
    mtls_security_scheme: MutualTlsSecurityScheme | None = None


class AgentCardSignature(_Model):
    """A JSON Web Signature of the card."""

    protected: Text = ""
    signature: Text = ""
    header: Struct | None = None


class AgentCard(_Model):
    """The description of an agent: its identity, capabilities, skills and interfaces."""

    name: str
    description: Text = ""
    supported_interfaces: Many[AgentInterface] = Field(default_factory=list)
    provider: AgentProvider | None = None
    version: Text = ""
    documentation_url: str | None = None
    capabilities: AgentCapabilities = Field(default_factory=AgentCapabilities)
    security_schemes: Annotated[dict[str, SecurityScheme], _NullIs(dict)] = Field(
        default_factory=dict
    )
    security_requirements: Many[SecurityRequirement] = Field(default_factory=list)
    default_input_modes: Many[str] = Field(default_factory=list)
    default_output_modes: Many[str] = Field(default_factory=list)
    skills: Many[AgentSkill] = Field(default_factory=list)
    signatures: Many[AgentCardSignature] = Field(default_factory=list)
    icon_url: str | None = None
    _fetched_from: str | None = PrivateAttr(None)  # the URL; set by a resolver
    _document: Mapping[str, Any] | None = PrivateAttr(None)  # as received; only of a signed card


# Requests and responses


class AuthenticationInfo(_Model):
    """The authentication of the agent at a push notification URL."""

    scheme: Text = ""
    credentials: str | None = None


class TaskPushNotificationConfig(_Model):
    """The URL that an agent sends the push notifications of a task to."""

    tenant: str | None = None
    id: str | None = None
    task_id: str | None = None
    url: Text = ""
    token: str | None = None
    authentication: AuthenticationInfo | None = None


class SendMessageConfiguration(_Model):
    """Options of the response to a message."""

    accepted_output_modes: Many[str] = Field(default_factory=list)
    task_push_notification_config: TaskPushNotificationConfig | None = None
    history_length: int | None = None
    return_immediately: bool | None = None


MessageSendConfiguration = SendMessageConfiguration


class SendMessageRequest(_Model):
    """The parameters of `send_message` and `send_message_stream`."""

    tenant: str | None = None
    message: Message
    configuration: SendMessageConfiguration | None = None
    metadata: Struct | None = None


class GetTaskRequest(_Model):
    """The parameters of `get_task`."""

    tenant: str | None = None
    id: str
    history_length: int | None = None


class ListTasksRequest(_Model):
    """The parameters of `list_tasks`."""

    tenant: str | None = None
    context_id: str | None = None
    status: AnyState | None = None
    page_size: int | None = None
    page_token: str | None = None
    history_length: int | None = None
    status_timestamp_after: str | None = None
    include_artifacts: bool | None = None


class ListTasksResponse(_Model):
    """One page of tasks, the newest first; an empty `next_page_token` means the last page."""

    tasks: Many[Task] = Field(default_factory=list)
    next_page_token: Text = ""
    page_size: int | None = None
    total_size: int | None = None


class CancelTaskRequest(_Model):
    """The parameters of `cancel_task`."""

    tenant: str | None = None
    id: str
    metadata: Struct | None = None


class SubscribeToTaskRequest(_Model):
    """The parameters of `resubscribe`."""

    tenant: str | None = None
    id: str


TaskResubscriptionRequest = SubscribeToTaskRequest


class GetTaskPushNotificationConfigRequest(_Model):
    """The parameters of `get_push_config`."""

    tenant: str | None = None
    task_id: str
    id: str | None = None


class DeleteTaskPushNotificationConfigRequest(_Model):
    """The parameters of `delete_push_config`."""

    tenant: str | None = None
    task_id: str
    id: str


class ListTaskPushNotificationConfigsRequest(_Model):
    """The parameters of `list_push_configs`."""

    tenant: str | None = None
    task_id: str
    page_size: int | None = None
    page_token: str | None = None


class ListTaskPushNotificationConfigsResponse(_Model):
    """One page of push configurations."""

    configs: Many[TaskPushNotificationConfig] = Field(default_factory=list)
    next_page_token: Text = ""


class GetExtendedAgentCardRequest(_Model):
    """The parameters of `get_extended_card`."""

    tenant: str | None = None
