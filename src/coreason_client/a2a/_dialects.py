"""The two dialects of the protocol, each whole, as data; conversions between them are pure.

Inside this package everything has the shape of 1.0. What 0.3 says differently is said here and
nowhere else: method names, the header of extensions, the words of enums, the shape of parts,
results without a wrapper, push configurations in two layers, and the card's older fields. Where
both directions are here, they are inverse to each other on what both dialects can say.

The conversions take and return JSON values and never look at what they do not know, so unknown
fields and words pass through them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import errors
from .errors import A2AJSONRPCError

__all__ = [
    "ERRORS_BY_CODE",
    "ERRORS_BY_REASON",
    "ERRORS_BY_STATUS",
    "JSON",
    "KEYS_OF_KINDS",
    "OPERATIONS",
    "ROLES_FROM_V03",
    "STATES_FROM_V03",
    "V03",
    "V10",
    "Dialect",
    "Operation",
    "card_from_v03",
    "configuration_to_v03",
    "dialect_of",
    "each",
    "given",
    "object_with",
    "part_from_v03",
    "part_to_v03",
    "shaped",
    "swap",
    "without",
    "word",
]

JSON: TypeAlias = dict[str, Any]
Conversion: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that an agent can be asked; `again`: asking twice does no harm."""

    name: str
    result: str
    again: bool = True
    streams: bool = False


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("send_message", "event", again=False),
        Operation("send_message_stream", "event", again=False, streams=True),
        Operation("get_task", "task"),
        Operation("list_tasks", "tasks"),
        Operation("cancel_task", "task"),
        Operation("resubscribe", "event", streams=True),
        Operation("create_push_config", "push", again=False),
        Operation("get_push_config", "push"),
        Operation("list_push_configs", "pushes"),
        Operation("delete_push_config", "nothing"),
        Operation("get_extended_card", "card"),
    )
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version of the protocol.

    `methods` are the JSON-RPC names, `paths` the verb and path of REST, `media_type` is the type of
    a REST body. `encode` turns the parameters of an operation from 1.0 into this dialect, `decode`
    a kind of result back. `subscribing_is_safe` is False where subscribing to a task makes servers
    double its content: there a lost stream is resumed by fetching the task.
    """

    version: str
    methods: Mapping[str, str]
    extension_headers: tuple[str, ...]
    paths: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    encode: Mapping[str, Conversion] = field(default_factory=dict)
    decode: Mapping[str, Conversion] = field(default_factory=dict)
    has_tenants: bool = False
    media_type: str = "application/a2a+json"
    subscribing_is_safe: bool = True

    def decoded(self, kind: str, value: Any) -> Any:
        """Return a kind of result in the shape of 1.0.

        Raises:
            ValueError: it has not the shape of this dialect.
        """
        convert = self.decode.get(kind)
        return value if convert is None else shaped(convert, value)


def shaped(convert: Conversion, value: Any) -> Any:
    """Convert what came from outside.

    Raises:
        ValueError: it has not the expected shape.
    """
    try:
        return convert(value)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"it has not the shape that was expected ({error})") from error


# Errors

_NAMED = (
    (errors.JSONParseError, None),
    (errors.InvalidRequestError, None),
    (errors.MethodNotFoundError, None),
    (errors.InvalidParamsError, None),
    (errors.InternalError, None),
    (errors.TaskNotFoundError, "TASK_NOT_FOUND"),
    (errors.TaskNotCancelableError, "TASK_NOT_CANCELABLE"),
    (errors.PushNotificationNotSupportedError, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (errors.UnsupportedOperationError, "UNSUPPORTED_OPERATION"),
    (errors.ContentTypeNotSupportedError, "CONTENT_TYPE_NOT_SUPPORTED"),
    (errors.InvalidAgentResponseError, "INVALID_AGENT_RESPONSE"),
    (errors.ExtendedAgentCardNotConfiguredError, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (errors.ExtensionSupportRequiredError, "EXTENSION_SUPPORT_REQUIRED"),
    (errors.VersionNotSupportedError, "VERSION_NOT_SUPPORTED"),
)
ERRORS_BY_CODE: Mapping[int, type[A2AJSONRPCError]] = {
    kind.default_code: kind for kind, _ in _NAMED
}
ERRORS_BY_REASON: Mapping[str, type[A2AJSONRPCError]] = {
    reason: kind for kind, reason in _NAMED if reason is not None
}
# Over HTTP+JSON the plain errors of JSON-RPC come without a reason.
ERRORS_BY_STATUS: Mapping[str, type[A2AJSONRPCError]] = {
    "INTERNAL": errors.InternalError,
    "INVALID_ARGUMENT": errors.InvalidParamsError,
}

# Words

_STATES = {
    "TASK_STATE_UNSPECIFIED": "unknown",
    "TASK_STATE_SUBMITTED": "submitted",
    "TASK_STATE_WORKING": "working",
    "TASK_STATE_COMPLETED": "completed",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_CANCELED": "canceled",
    "TASK_STATE_INPUT_REQUIRED": "input-required",
    "TASK_STATE_REJECTED": "rejected",
    "TASK_STATE_AUTH_REQUIRED": "auth-required",
}
_ROLES = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
STATES_FROM_V03 = {word: state for state, word in _STATES.items()}
ROLES_FROM_V03 = {word: role for role, word in _ROLES.items()}
_KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
KEYS_OF_KINDS: Mapping[str, str] = {kind: key for key, kind in _KINDS.items()}
# Where a server leaves the kind out: the member that gives it away, the telling ones first.
_TELLTALES = {
    "artifact": "artifactUpdate",
    "parts": "message",
    "taskId": "statusUpdate",
    "status": "task",
}
# 1.0 allows any JSON value as data, 0.3 only an object: others travel in one, marked.
_WRAPPED = "data_part_compat"


def swap(value: JSON, **conversions: Conversion) -> JSON:
    """Return the object with some members converted, where they are there."""
    changed = {
        name: convert(value[name])
        for name, convert in conversions.items()
        if value.get(name) is not None
    }
    return {**value, **changed}


def word(words: Mapping[str, str]) -> Conversion:
    return lambda word: words.get(word, word) if isinstance(word, str) else word


def each(convert: Conversion) -> Conversion:
    return lambda items: (
        [convert(item) if isinstance(item, dict) else item for item in items]
        if isinstance(items, list)
        else items
    )


def object_with(convert: Callable[[JSON], JSON]) -> Conversion:
    return lambda value: convert(value) if isinstance(value, dict) else value


def without(value: JSON, *names: str) -> JSON:
    return {name: member for name, member in value.items() if name not in names}


def given(**members: Any) -> JSON:
    return {name: member for name, member in members.items() if member is not None}


# Parts


def part_to_v03(part: JSON) -> JSON:
    rest = without(part, "text", "raw", "url", "data", "filename", "mediaType")
    about = given(name=part.get("filename"), mimeType=part.get("mediaType"))
    if part.get("raw") is not None:
        return {**rest, "kind": "file", "file": {"bytes": part["raw"], **about}}
    if part.get("url") is not None:
        return {**rest, "kind": "file", "file": {"uri": part["url"], **about}}
    rest |= given(filename=part.get("filename"), mediaType=part.get("mediaType"))
    if "data" not in part:
        return {**rest, "kind": "text", "text": part.get("text", "")}
    if isinstance(part["data"], dict):
        return {**rest, "kind": "data", "data": part["data"]}
    marked = {**(part.get("metadata") or {}), _WRAPPED: True}
    return {**rest, "kind": "data", "data": {"value": part["data"]}, "metadata": marked}


def part_from_v03(part: JSON) -> JSON:
    rest = without(part, "kind")
    file = part.get("file")
    if isinstance(file, dict):
        rest = {**without(rest, "file"), **without(file, "bytes", "uri", "name", "mimeType")}
        return rest | given(
            raw=file.get("bytes"),
            url=file.get("uri"),
            filename=file.get("name"),
            mediaType=file.get("mimeType"),
        )
    metadata = part.get("metadata")
    data = part.get("data")
    if isinstance(metadata, dict) and metadata.get(_WRAPPED) and isinstance(data, dict):
        rest |= {"data": data.get("value"), "metadata": without(metadata, _WRAPPED)}
        return rest if rest["metadata"] else without(rest, "metadata")
    return rest


_parts_to_v03 = each(part_to_v03)
_parts_from_v03 = each(part_from_v03)

# Messages, tasks and events


def _message_to_v03(message: JSON) -> JSON:
    swapped = swap(message, role=word(_ROLES), parts=_parts_to_v03)
    return {**swapped, "kind": "message"}


def _message_from_v03(message: JSON) -> JSON:
    return swap(without(message, "kind"), role=word(ROLES_FROM_V03), parts=_parts_from_v03)


def _status_from_v03(status: JSON) -> JSON:
    return swap(status, state=word(STATES_FROM_V03), message=object_with(_message_from_v03))


def _artifact_from_v03(artifact: JSON) -> JSON:
    return swap(artifact, parts=_parts_from_v03)


def _task_from_v03(task: JSON) -> JSON:
    return swap(
        without(task, "kind"),
        status=object_with(_status_from_v03),
        artifacts=each(_artifact_from_v03),
        history=each(_message_from_v03),
    )


_PAYLOADS_FROM_V03: Mapping[str, Callable[[JSON], JSON]] = {
    "task": _task_from_v03,
    "message": _message_from_v03,
    "statusUpdate": lambda event: swap(
        without(event, "kind"), status=object_with(_status_from_v03)
    ),
    "artifactUpdate": lambda event: swap(
        without(event, "kind"), artifact=object_with(_artifact_from_v03)
    ),
}


def event_from_v03(event: JSON) -> JSON:
    """Turn the bare object of 0.3 into the wrapper of 1.0; an unknown kind stays as it is."""
    kind = event.get("kind")
    key = _guess(event) if kind is None else KEYS_OF_KINDS.get(kind)
    return event if key is None else {key: _PAYLOADS_FROM_V03[key](event)}


def _guess(event: JSON) -> str | None:
    return next((key for name, key in _TELLTALES.items() if name in event), None)


# Parameters


def _push_to_v03(config: JSON) -> JSON:
    bare = without(config, "tenant", "taskId")
    authentication = bare.get("authentication")
    if isinstance(authentication, dict):
        schemes = [authentication["scheme"]] if authentication.get("scheme") else []
        bare["authentication"] = {**without(authentication, "scheme"), "schemes": schemes}
    return bare


def _push_from_v03(config: JSON) -> JSON:
    authentication = config.get("authentication")
    if not isinstance(authentication, dict):
        return config
    schemes = authentication.get("schemes") or [""]
    if isinstance(schemes, str):  # not a list, though it should be one
        schemes = [schemes]
    plain = {**without(authentication, "schemes"), "scheme": schemes[0]}
    return {**config, "authentication": plain}


def push_to_v03(config: JSON) -> JSON:
    """Turn the flat push configuration of 1.0 into the two layers of 0.3."""
    return given(taskId=config.get("taskId")) | {"pushNotificationConfig": _push_to_v03(config)}


def push_from_v03(config: JSON) -> JSON:
    """Turn the push configuration of 0.3 into the flat one of 1.0."""
    inner = config.get("pushNotificationConfig")
    flat = _push_from_v03(inner) if isinstance(inner, dict) else {}
    return {**without(config, "pushNotificationConfig"), **flat}


def configuration_to_v03(configuration: JSON) -> JSON:
    rest = without(configuration, "returnImmediately", "taskPushNotificationConfig")
    push = configuration.get("taskPushNotificationConfig")
    if isinstance(push, dict):
        rest["pushNotificationConfig"] = _push_to_v03(push)
    if configuration.get("returnImmediately") is not None:
        rest["blocking"] = not configuration["returnImmediately"]
    return rest


def send_to_v03(params: JSON) -> JSON:
    """Turn the parameters of sending from 1.0 into 0.3, which knows no tenant."""
    return swap(
        without(params, "tenant"),
        message=object_with(_message_to_v03),
        configuration=object_with(configuration_to_v03),
    )


def _plain_to_v03(params: JSON) -> JSON:
    return without(params, "tenant")


def _push_name_to_v03(params: JSON) -> JSON:
    return given(id=params.get("taskId"), pushNotificationConfigId=params.get("id"))


# The card


def card_from_v03(card: JSON) -> JSON:
    """Return the card with what only its older fields say put where 1.0 has it.

    Cards that carry both versions are common: what 1.0 says wins.
    """
    card = dict(card)
    if not card.get("supportedInterfaces"):
        card["supportedInterfaces"] = _interfaces_of_v03(card)
    if not card.get("securityRequirements") and card.get("security"):
        card["securityRequirements"] = _requirements(card["security"])
    if isinstance(card.get("securitySchemes"), dict):
        schemes = card["securitySchemes"].items()
        card["securitySchemes"] = {name: object_with(_scheme)(scheme) for name, scheme in schemes}
    if card.get("supportsAuthenticatedExtendedCard"):
        card["capabilities"] = {"extendedAgentCard": True, **(card.get("capabilities") or {})}
    card["skills"] = each(_skill)(card.get("skills"))
    return card


def _interfaces_of_v03(card: JSON) -> list[JSON]:
    version = card.get("protocolVersion") or "0.3"
    found: list[JSON] = []
    if card.get("url"):
        found.append({"url": card["url"], "transport": card.get("preferredTransport")})
    found += [other for other in card.get("additionalInterfaces") or () if other not in found]
    return [
        {
            "url": place.get("url"),
            "protocolBinding": place.get("transport") or "JSONRPC",
            "protocolVersion": version,
        }
        for place in found
    ]


def _requirements(security: Any) -> Any:
    return each(
        lambda needed: (
            needed
            if "schemes" in needed
            else {"schemes": {name: {"list": scopes} for name, scopes in needed.items()}}
        )
    )(security)


def _skill(skill: JSON) -> JSON:
    if skill.get("securityRequirements") or not skill.get("security"):
        return skill
    return {**skill, "securityRequirements": _requirements(skill["security"])}


_SCHEME_TYPES = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}


def _scheme(scheme: JSON) -> JSON:
    """Turn a security scheme in the manner of OpenAPI into the one of 1.0."""
    key = _SCHEME_TYPES.get(scheme.get("type", ""))
    if key is None:
        return scheme
    rest = without(scheme, "type", "in")
    return {key: rest | given(location=scheme.get("in"))}


# The dialects

V10 = Dialect(
    version="1.0",
    extension_headers=("A2A-Extensions",),
    has_tenants=True,
    methods={
        "send_message": "SendMessage",
        "send_message_stream": "SendStreamingMessage",
        "get_task": "GetTask",
        "list_tasks": "ListTasks",
        "cancel_task": "CancelTask",
        "resubscribe": "SubscribeToTask",
        "create_push_config": "CreateTaskPushNotificationConfig",
        "get_push_config": "GetTaskPushNotificationConfig",
        "list_push_configs": "ListTaskPushNotificationConfigs",
        "delete_push_config": "DeleteTaskPushNotificationConfig",
        "get_extended_card": "GetExtendedAgentCard",
    },
    paths={
        "send_message": ("POST", "/message:send"),
        "send_message_stream": ("POST", "/message:stream"),
        "get_task": ("GET", "/tasks/{id}"),
        "list_tasks": ("GET", "/tasks"),
        "cancel_task": ("POST", "/tasks/{id}:cancel"),
        "resubscribe": ("POST", "/tasks/{id}:subscribe"),
        "create_push_config": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
        "get_push_config": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "list_push_configs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
        "delete_push_config": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
        "get_extended_card": ("GET", "/extendedAgentCard"),
    },
    decode={"card": card_from_v03},  # an extended card may carry older fields too
)

V03 = Dialect(
    version="0.3",
    extension_headers=("A2A-Extensions", "X-A2A-Extensions"),
    subscribing_is_safe=False,
    methods={
        "send_message": "message/send",
        "send_message_stream": "message/stream",
        "get_task": "tasks/get",
        "cancel_task": "tasks/cancel",
        "resubscribe": "tasks/resubscribe",
        "create_push_config": "tasks/pushNotificationConfig/set",
        "get_push_config": "tasks/pushNotificationConfig/get",
        "list_push_configs": "tasks/pushNotificationConfig/list",
        "delete_push_config": "tasks/pushNotificationConfig/delete",
        "get_extended_card": "agent/getAuthenticatedExtendedCard",
    },
    encode={
        "send_message": send_to_v03,
        "send_message_stream": send_to_v03,
        "get_task": _plain_to_v03,
        "cancel_task": _plain_to_v03,
        "resubscribe": _plain_to_v03,
        "create_push_config": push_to_v03,
        "get_push_config": _push_name_to_v03,
        "list_push_configs": _push_name_to_v03,
        "delete_push_config": _push_name_to_v03,
        "get_extended_card": lambda params: {},
    },
    decode={
        "event": object_with(event_from_v03),
        "task": object_with(_task_from_v03),
        "push": object_with(push_from_v03),
        "pushes": lambda configs: {"configs": each(push_from_v03)(configs)},
        "card": object_with(card_from_v03),
    },
)


def dialect_of(version: str) -> Dialect | None:
    """Return the dialect of a version; the patch part does not matter. None: not one of ours."""
    major, _, rest = version.partition(".")
    if major == "1":
        return V10
    # 0.2 has the method names and shapes of 0.3.
    return V03 if major == "0" and rest.partition(".")[0] in ("2", "3") else None
