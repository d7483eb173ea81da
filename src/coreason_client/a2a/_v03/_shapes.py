"""The shapes of 0.3: conversions from and to those of 1.0, as JSON values. Pure.

The differences of 0.3 are method names, enum values, the shape of parts, results without a wrapper,
nested push configurations, and the older fields of the card. Where both directions are defined,
one is the inverse of the other for everything that both dialects can express. Unknown fields and
unknown enum values pass through unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

JSON: TypeAlias = dict[str, Any]
Conversion: TypeAlias = Callable[[Any], Any]

METHODS: Mapping[str, str] = {
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
}
"""The JSON-RPC names of the operations."""

# Enum values

STATES_TO_V03 = {
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
_ROLES_TO_V03 = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
STATES_FROM_V03 = {old: state for state, old in STATES_TO_V03.items()}
ROLES_FROM_V03 = {old: role for role, old in _ROLES_TO_V03.items()}
_KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
WRAPPER_KEYS: Mapping[str, str] = {kind: key for key, kind in _KINDS.items()}
# If a server omits `kind`, it is inferred from a distinguishing member, most specific first.
_KINDS_BY_MEMBER = {
    "artifact": "artifactUpdate",
    "parts": "message",
    "taskId": "statusUpdate",
    "status": "task",
}
# 1.0 allows any JSON value as data, 0.3 only objects: other values are wrapped and marked.
_WRAPPED_MARK = "data_part_compat"


def convert_members(value: JSON, **conversions: Conversion) -> JSON:
    """Return the object with these members converted if they are present."""
    changed = {
        name: convert(value[name])
        for name, convert in conversions.items()
        if value.get(name) is not None
    }
    return {**value, **changed}


def translate(values: Mapping[str, str]) -> Conversion:
    return lambda value: values.get(value, value) if isinstance(value, str) else value


def convert_each(convert: Conversion) -> Conversion:
    return lambda items: (
        [convert(item) if isinstance(item, dict) else item for item in items]
        if isinstance(items, list)
        else items
    )


def convert_object(convert: Callable[[JSON], JSON]) -> Conversion:
    return lambda value: convert(value) if isinstance(value, dict) else value


def without(value: JSON, *names: str) -> JSON:
    return {name: member for name, member in value.items() if name not in names}


def without_none(**members: Any) -> JSON:
    return {name: member for name, member in members.items() if member is not None}


# Parts


def part_to_v03(part: JSON) -> JSON:
    rest = without(part, "text", "raw", "url", "data", "filename", "mediaType")
    about = without_none(name=part.get("filename"), mimeType=part.get("mediaType"))
    if part.get("raw") is not None:
        return {**rest, "kind": "file", "file": {"bytes": part["raw"], **about}}
    if part.get("url") is not None:
        return {**rest, "kind": "file", "file": {"uri": part["url"], **about}}
    rest |= without_none(filename=part.get("filename"), mediaType=part.get("mediaType"))
    if "data" not in part:
        return {**rest, "kind": "text", "text": part.get("text", "")}
    if isinstance(part["data"], dict):
        return {**rest, "kind": "data", "data": part["data"]}
    marked = {**(part.get("metadata") or {}), _WRAPPED_MARK: True}
    return {**rest, "kind": "data", "data": {"value": part["data"]}, "metadata": marked}


def part_from_v03(part: JSON) -> JSON:
    rest = without(part, "kind")
    file = part.get("file")
    if isinstance(file, dict):
        rest = {**without(rest, "file"), **without(file, "bytes", "uri", "name", "mimeType")}
        return rest | without_none(
            raw=file.get("bytes"),
            url=file.get("uri"),
            filename=file.get("name"),
            mediaType=file.get("mimeType"),
        )
    metadata = part.get("metadata")
    data = part.get("data")
    if isinstance(metadata, dict) and metadata.get(_WRAPPED_MARK) and isinstance(data, dict):
        rest |= {"data": data.get("value"), "metadata": without(metadata, _WRAPPED_MARK)}
        return rest if rest["metadata"] else without(rest, "metadata")
    return rest


parts_to_v03 = convert_each(part_to_v03)
_parts_from_v03 = convert_each(part_from_v03)

# Messages, tasks and events


def message_to_v03(message: JSON) -> JSON:
    converted = convert_members(message, role=translate(_ROLES_TO_V03), parts=parts_to_v03)
    return {**converted, "kind": "message"}


def message_from_v03(message: JSON) -> JSON:
    return convert_members(
        without(message, "kind"), role=translate(ROLES_FROM_V03), parts=_parts_from_v03
    )


def _status_from_v03(status: JSON) -> JSON:
    return convert_members(
        status, state=translate(STATES_FROM_V03), message=convert_object(message_from_v03)
    )


def _artifact_from_v03(artifact: JSON) -> JSON:
    return convert_members(artifact, parts=_parts_from_v03)


def _task_from_v03(task: JSON) -> JSON:
    return convert_members(
        without(task, "kind"),
        status=convert_object(_status_from_v03),
        artifacts=convert_each(_artifact_from_v03),
        history=convert_each(message_from_v03),
    )


_PAYLOADS_FROM_V03: Mapping[str, Callable[[JSON], JSON]] = {
    "task": _task_from_v03,
    "message": message_from_v03,
    "statusUpdate": lambda event: convert_members(
        without(event, "kind"), status=convert_object(_status_from_v03)
    ),
    "artifactUpdate": lambda event: convert_members(
        without(event, "kind"), artifact=convert_object(_artifact_from_v03)
    ),
}


def event_from_v03(event: JSON) -> JSON:
    """Convert the bare object of 0.3 to the wrapper of 1.0; an unknown kind stays unchanged."""
    kind = event.get("kind")
    key = _infer_kind(event) if kind is None else WRAPPER_KEYS.get(kind)
    return event if key is None else {key: _PAYLOADS_FROM_V03[key](event)}


def _infer_kind(event: JSON) -> str | None:
    return next((key for name, key in _KINDS_BY_MEMBER.items() if name in event), None)


# Parameters


def push_config_to_v03(config: JSON) -> JSON:
    bare = without(config, "tenant", "taskId")
    authentication = bare.get("authentication")
    if isinstance(authentication, dict):
        schemes = [authentication["scheme"]] if authentication.get("scheme") else []
        bare["authentication"] = {**without(authentication, "scheme"), "schemes": schemes}
    return bare


def push_config_from_v03(config: JSON) -> JSON:
    authentication = config.get("authentication")
    if not isinstance(authentication, dict):
        return config
    schemes = authentication.get("schemes") or [""]
    if isinstance(schemes, str):  # some servers send a string instead of a list
        schemes = [schemes]
    plain = {**without(authentication, "schemes"), "scheme": schemes[0]}
    return {**config, "authentication": plain}


def push_to_v03(config: JSON) -> JSON:
    """Convert the flat push configuration of 1.0 to the nested one of 0.3."""
    return without_none(taskId=config.get("taskId")) | {
        "pushNotificationConfig": push_config_to_v03(config)
    }


def push_from_v03(config: JSON) -> JSON:
    """Convert the nested push configuration of 0.3 to the flat one of 1.0."""
    inner = config.get("pushNotificationConfig")
    flat = push_config_from_v03(inner) if isinstance(inner, dict) else {}
    return {**without(config, "pushNotificationConfig"), **flat}


def configuration_to_v03(configuration: JSON) -> JSON:
    rest = without(configuration, "returnImmediately", "taskPushNotificationConfig")
    push = configuration.get("taskPushNotificationConfig")
    if isinstance(push, dict):
        rest["pushNotificationConfig"] = push_config_to_v03(push)
    if configuration.get("returnImmediately") is not None:
        rest["blocking"] = not configuration["returnImmediately"]
    return rest


def send_to_v03(params: JSON) -> JSON:
    """Convert the parameters of sending from 1.0 to 0.3, which has no tenants."""
    return convert_members(
        without(params, "tenant"),
        message=convert_object(message_to_v03),
        configuration=convert_object(configuration_to_v03),
    )


def _without_tenant(params: JSON) -> JSON:
    return without(params, "tenant")


def _push_reference_to_v03(params: JSON) -> JSON:
    return without_none(id=params.get("taskId"), pushNotificationConfigId=params.get("id"))


# The card


def card_from_v03(card: JSON) -> JSON:
    """Return the card with the information of its older fields in the fields of 1.0.

    Cards often contain both; then the fields of 1.0 win.
    """
    card = dict(card)
    if not card.get("supportedInterfaces"):
        card["supportedInterfaces"] = _interfaces_of_v03(card)
    if not card.get("securityRequirements") and card.get("security"):
        card["securityRequirements"] = _requirements(card["security"])
    if isinstance(card.get("securitySchemes"), dict):
        schemes = card["securitySchemes"].items()
        card["securitySchemes"] = {
            name: convert_object(_scheme)(scheme) for name, scheme in schemes
        }
    if card.get("supportsAuthenticatedExtendedCard"):
        card["capabilities"] = {"extendedAgentCard": True, **(card.get("capabilities") or {})}
    card["skills"] = convert_each(_skill)(card.get("skills"))
    return card


def _interfaces_of_v03(card: JSON) -> list[JSON]:
    version = card.get("protocolVersion") or "0.3"
    found: list[JSON] = []
    if card.get("url"):
        found.append({"url": card["url"], "transport": card.get("preferredTransport")})
    found += [other for other in card.get("additionalInterfaces") or () if other not in found]
    return [
        {
            "url": interface.get("url"),
            "protocolBinding": interface.get("transport") or "JSONRPC",
            "protocolVersion": version,
        }
        for interface in found
    ]


def _requirements(security: Any) -> Any:
    return convert_each(
        lambda required: (
            required
            if "schemes" in required
            else {"schemes": {name: {"list": scopes} for name, scopes in required.items()}}
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
    """Convert a security scheme in OpenAPI form to the form of 1.0."""
    key = _SCHEME_TYPES.get(scheme.get("type", ""))
    if key is None:
        return scheme
    rest = without(scheme, "type", "in")
    return {key: rest | without_none(location=scheme.get("in"))}


# The dialect: by operation, its parameters; by the kind of result, the result

ENCODE: Mapping[str, Conversion] = {
    "send_message": send_to_v03,
    "send_message_stream": send_to_v03,
    "get_task": _without_tenant,
    "cancel_task": _without_tenant,
    "resubscribe": _without_tenant,
    "create_push_config": push_to_v03,
    "get_push_config": _push_reference_to_v03,
    "list_push_configs": _push_reference_to_v03,
    "delete_push_config": _push_reference_to_v03,
    "get_extended_card": lambda params: {},
}

DECODE: Mapping[str, Conversion] = {
    "event": convert_object(event_from_v03),
    "task": convert_object(_task_from_v03),
    "push": convert_object(push_from_v03),
    "pushes": lambda configs: {"configs": convert_each(push_from_v03)(configs)},
    "card": convert_object(card_from_v03),
}
