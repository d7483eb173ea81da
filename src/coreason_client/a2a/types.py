"""The objects of the A2A protocol, one set whatever dialect is on the wire.

Attributes are the snake_case of the protocol's names; on the wire they are camelCase, in the shape
of version 1.0 (`_dialects` converts the other one). Nothing that an agent may send makes them
fail without need: unknown fields and unknown enum values are kept, and what ProtoJSON leaves out
because it is a default (`""`, `[]`, `false`, the enum value 0) may be absent or null.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
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
    """Lets null stand for what ProtoJSON leaves out.

    Two branches, because the first stays inside pydantic-core.
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
    """Where a task stands."""

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
        # ProtoJSON may write the number of an enum value; some agents write 0.3 words in 1.0.
        return _by_number(list(cls), value) or _by_word(cls, value)

    @property
    def is_terminal(self) -> bool:
        """Whether the task is over."""
        return self in _TERMINAL

    @property
    def is_interrupted(self) -> bool:
        """Whether the task waits for the user."""
        return self in _INTERRUPTED


_TERMINAL = frozenset(
    {TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED}
)
_INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})


class Role(StrEnum):
    """Who speaks."""

    UNSPECIFIED = "ROLE_UNSPECIFIED"
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"

    @classmethod
    def _missing_(cls, value: object) -> "Role | None":
        return _by_number(list(cls), value) or _by_word(cls, value)


_Member = TypeVar("_Member", bound=StrEnum)


def _by_number(members: list[_Member], value: object) -> _Member | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(members):
        return members[value]
    return None


def _by_word(kind: type[_Member], value: object) -> _Member | None:
    """Return the member for a word of 0.3, such as `input-required`."""
    if not isinstance(value, str) or not value.islower():
        return None
    return kind.__members__.get(value.replace("-", "_").upper())


# An unknown word stays a string, an unknown number a number: never a crash, never lost.
AnyState = Annotated[TaskState | str | int, Field(union_mode="left_to_right")]
AnyRole = Annotated[Role | str | int, Field(union_mode="left_to_right")]


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,  # forty models take a tenth of a second; few are used in one program
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

# ProtoJSON writes the standard alphabet and reads both.
_URL_SAFE = str.maketrans("-_", "+/")


class Part(_Model):
    """A piece of content: `text`, `raw` (base64), `url` or `data`, whichever is there."""

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
        """Make a part that carries a file's content."""
        raw = b64encode(content).decode()
        return cls(raw=raw, filename=filename, media_type=media_type)

    @property
    def content(self) -> bytes | None:
        """The bytes of `raw`, None where there is none.

        Raises:
            ValueError: it is not base64.
        """
        return None if self.raw is None else b64decode(self.raw.translate(_URL_SAFE), validate=True)

    @serializer(mode="wrap")
    def _keep_null_data(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # `data` may be any JSON value: null is a value, and not the same as no data.
        fields: dict[str, Any] = handler(self)
        if self.data is None and "data" in self.model_fields_set:
            fields["data"] = None
        return fields


def _joined(parts: Iterable[Part]) -> str:
    return "".join([part.text for part in parts if part.text])


class Message(_Model):
    """Something that the user or the agent says."""

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
        """Make a message of the user's with a text."""
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


# Tasks and what happens to them


class TaskStatus(_Model):
    """Where a task stands, and what the agent says about it."""

    state: AnyState = TaskState.UNSPECIFIED
    message: Message | None = None
    timestamp: str | None = None

    @property
    def text(self) -> str:
        """The text of its message."""
        return "" if self.message is None else self.message.text

    @property
    def is_terminal(self) -> bool:
        """Whether the task is over."""
        return self.state in _TERMINAL

    @property
    def is_interrupted(self) -> bool:
        """Whether the task waits for the user."""
        return self.state in _INTERRUPTED


# Some agents send null for a status that has not changed.
AnyStatus = Annotated[TaskStatus, _NullIs(TaskStatus)]


class Task(_Model):
    """A piece of work that an agent does."""

    id: str
    context_id: str | None = None
    status: AnyStatus = Field(default_factory=TaskStatus)
    artifacts: Many[Artifact] = Field(default_factory=list)
    history: Many[Message] = Field(default_factory=list)
    metadata: Struct | None = None

    @property
    def text(self) -> str:
        """The answer: the text of the artifacts.

        A task without such text that is over or waits for the user answers with its status, or
        else with the messages of the agent that end its history.
        """
        text = "".join([artifact.text for artifact in self.artifacts])
        if text or not (self.status.is_terminal or self.status.is_interrupted):
            return text
        return self.status.text or "".join([said.text for said in latest_messages(self)])

    @property
    def status_text(self) -> str:
        """The text of the status, which is not part of the answer while the task is running."""
        return self.status.text


def latest_messages(task: Task) -> list[Message]:
    """Return the messages of a task's history that follow the last one of the user."""
    said: list[Message] = []
    for message in reversed(task.history):
        if message.role == Role.USER:
            break
        said.append(message)
    return said[::-1]


class TaskStatusUpdateEvent(_Model):
    """A task's status has changed. `final` is a flag of 0.3: nothing follows."""

    task_id: Text = ""
    context_id: str | None = None
    status: AnyStatus = Field(default_factory=TaskStatus)
    metadata: Struct | None = None
    final: bool | None = None
    _answer: str | None = PrivateAttr(None)  # set by a stream, which knows what came before

    @property
    def text(self) -> str:
        """The part of the answer that comes with the status; mostly nothing.

        Only a status that ends the task or waits for the user is an answer, and in a stream only
        when the agent has answered in no other way.
        """
        if self._answer is not None:
            return self._answer
        return self.status.text if self.status.is_terminal or self.status.is_interrupted else ""

    @property
    def status_text(self) -> str:
        """The text of the status."""
        return self.status.text


class TaskArtifactUpdateEvent(_Model):
    """An artifact has grown (`append`) or been written anew."""

    task_id: Text = ""
    context_id: str | None = None
    artifact: Artifact
    append: Flag = False
    last_chunk: Flag = False
    metadata: Struct | None = None

    @property
    def text(self) -> str:
        """The text that came with it."""
        return _joined(self.artifact.parts)

    @property
    def status_text(self) -> str:
        """Empty: an artifact has no status."""
        return ""


class UnknownEvent(_Model):
    """What an agent sent that this version of the protocol has no name for; kept as it came."""

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON object."""
        return dict(self.model_extra or {})

    @property
    def text(self) -> str:
        """Nothing that is known to be text."""
        return ""

    @property
    def status_text(self) -> str:
        """Nothing that is known to be text."""
        return ""


Event: TypeAlias = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent | UnknownEvent
"""What a stream yields, and what sending a message returns."""


# The card


class AgentProvider(_Model):
    """Who runs the agent."""

    url: Text = ""
    organization: Text = ""


class AgentInterface(_Model):
    """Where and how an agent is called; `protocol_version` is empty where the card is silent."""

    url: Text = ""
    protocol_binding: Text = ""
    protocol_version: Text = ""
    tenant: str | None = None


class AgentExtension(_Model):
    """An extension of the protocol that the agent knows."""

    uri: Text = ""
    description: str | None = None
    required: Flag = False
    params: Struct | None = None


class AgentCapabilities(_Model):
    """What the agent can do beyond plain calls."""

    streaming: bool | None = None
    push_notifications: bool | None = None
    extensions: Many[AgentExtension] = Field(default_factory=list)
    extended_agent_card: bool | None = None


class SecurityRequirement(_Model):
    """Schemes that are needed together; the scopes of each under `list`."""

    schemes: dict[str, Any] = Field(default_factory=dict)


class AgentSkill(_Model):
    """Something that the agent is good at."""

    id: Text = ""
    name: Text = ""
    description: Text = ""
    tags: Many[str] = Field(default_factory=list)
    examples: Many[str] = Field(default_factory=list)
    input_modes: Many[str] = Field(default_factory=list)
    output_modes: Many[str] = Field(default_factory=list)
    security_requirements: Many[SecurityRequirement] = Field(default_factory=list)


class APIKeySecurityScheme(_Model):
    """A key in a header, the query or a cookie."""

    description: str | None = None
    location: Text = ""
    name: Text = ""


class HTTPAuthSecurityScheme(_Model):
    """An `Authorization` header."""

    description: str | None = None
    scheme: Text = ""
    bearer_format: str | None = None


class OAuth2SecurityScheme(_Model):
    """OAuth 2; getting the token is the caller's business."""

    description: str | None = None
    flows: Struct | None = None
    oauth2_metadata_url: str | None = None


class OpenIdConnectSecurityScheme(_Model):
    """OpenID Connect; getting the token is the caller's business."""

    description: str | None = None
    open_id_connect_url: Text = ""


class MutualTlsSecurityScheme(_Model):
    """A client certificate, which belongs into the HTTP client."""

    description: str | None = None


class SecurityScheme(_Model):
    """One way to say who calls, whichever is there."""

    api_key_security_scheme: APIKeySecurityScheme | None = None
    http_auth_security_scheme: HTTPAuthSecurityScheme | None = None
    oauth2_security_scheme: OAuth2SecurityScheme | None = None
    open_id_connect_security_scheme: OpenIdConnectSecurityScheme | None = None
    mtls_security_scheme: MutualTlsSecurityScheme | None = None


class AgentCardSignature(_Model):
    """A JSON web signature over the card."""

    protected: Text = ""
    signature: Text = ""
    header: Struct | None = None


class AgentCard(_Model):
    """What an agent says about itself: who it is, what it can do, where it is called."""

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
    _fetched_from: str | None = PrivateAttr(None)  # set by a resolver: the address it was given


# Requests and answers


class AuthenticationInfo(_Model):
    """How the agent says who it is when it calls a push address."""

    scheme: Text = ""
    credentials: str | None = None


class TaskPushNotificationConfig(_Model):
    """Where an agent is to send the news of a task."""

    tenant: str | None = None
    id: str | None = None
    task_id: str | None = None
    url: Text = ""
    token: str | None = None
    authentication: AuthenticationInfo | None = None


class SendMessageConfiguration(_Model):
    """How a message is to be answered."""

    accepted_output_modes: Many[str] = Field(default_factory=list)
    task_push_notification_config: TaskPushNotificationConfig | None = None
    history_length: int | None = None
    return_immediately: bool | None = None


MessageSendConfiguration = SendMessageConfiguration


class SendMessageRequest(_Model):
    """What `send_message` and `send_message_stream` ask."""

    tenant: str | None = None
    message: Message
    configuration: SendMessageConfiguration | None = None
    metadata: Struct | None = None


class GetTaskRequest(_Model):
    """What `get_task` asks."""

    tenant: str | None = None
    id: str
    history_length: int | None = None


class ListTasksRequest(_Model):
    """What `list_tasks` asks."""

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
    """What `cancel_task` asks."""

    tenant: str | None = None
    id: str
    metadata: Struct | None = None


class SubscribeToTaskRequest(_Model):
    """What `resubscribe` asks."""

    tenant: str | None = None
    id: str


TaskResubscriptionRequest = SubscribeToTaskRequest


class GetTaskPushNotificationConfigRequest(_Model):
    """Which push configuration is wanted."""

    tenant: str | None = None
    task_id: str
    id: str | None = None


class DeleteTaskPushNotificationConfigRequest(_Model):
    """Which push configuration is to go."""

    tenant: str | None = None
    task_id: str
    id: str


class ListTaskPushNotificationConfigsRequest(_Model):
    """Of which task the push configurations are wanted."""

    tenant: str | None = None
    task_id: str
    page_size: int | None = None
    page_token: str | None = None


class ListTaskPushNotificationConfigsResponse(_Model):
    """One page of push configurations."""

    configs: Many[TaskPushNotificationConfig] = Field(default_factory=list)
    next_page_token: Text = ""


class GetExtendedAgentCardRequest(_Model):
    """What `get_extended_card` asks."""

    tenant: str | None = None
