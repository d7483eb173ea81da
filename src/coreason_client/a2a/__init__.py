"""Agent2Agent (A2A): clients for agents with version 1.0 or 0.3 of the protocol.

The names below are loaded when they are first used (PEP 562).
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from ._auth import Auth as Auth
    from ._card import CardKeys as CardKeys
    from ._card_signatures import verify_card as verify_card
    from ._oauth import ClientCredentials as ClientCredentials
    from ._options import CallInfo as CallInfo
    from ._options import CallOptions as CallOptions
    from ._options import Options as Options
    from .aclient import AsyncA2AClient as AsyncA2AClient
    from .aclient import AsyncAgentCardResolver as AsyncAgentCardResolver
    from .aclient import default_async_resolver as default_async_resolver
    from .client import A2AClient as A2AClient
    from .client import AgentCardResolver as AgentCardResolver
    from .client import default_resolver as default_resolver
    from .errors import A2ACardSignatureError as A2ACardSignatureError
    from .errors import A2AConnectionError as A2AConnectionError
    from .errors import A2AEmptyResultError as A2AEmptyResultError
    from .errors import A2AError as A2AError
    from .errors import A2AHTTPError as A2AHTTPError
    from .errors import A2AJSONError as A2AJSONError
    from .errors import A2AJSONRPCError as A2AJSONRPCError
    from .errors import A2ANoSupportedInterfaceError as A2ANoSupportedInterfaceError
    from .errors import A2AOriginError as A2AOriginError
    from .errors import A2APushError as A2APushError
    from .errors import A2AResponseTooLargeError as A2AResponseTooLargeError
    from .errors import A2ASSEParseError as A2ASSEParseError
    from .errors import A2AStreamClosedError as A2AStreamClosedError
    from .errors import A2ATimeoutError as A2ATimeoutError
    from .errors import A2ATokenError as A2ATokenError
    from .errors import ClientError as ClientError
    from .errors import ContentTypeNotSupportedError as ContentTypeNotSupportedError
    from .errors import ExtendedAgentCardNotConfiguredError as ExtendedAgentCardNotConfiguredError
    from .errors import ExtensionSupportRequiredError as ExtensionSupportRequiredError
    from .errors import InternalError as InternalError
    from .errors import InvalidAgentResponseError as InvalidAgentResponseError
    from .errors import InvalidParamsError as InvalidParamsError
    from .errors import InvalidRequestError as InvalidRequestError
    from .errors import JSONParseError as JSONParseError
    from .errors import MethodNotFoundError as MethodNotFoundError
    from .errors import PushNotificationNotSupportedError as PushNotificationNotSupportedError
    from .errors import TaskNotCancelableError as TaskNotCancelableError
    from .errors import TaskNotFoundError as TaskNotFoundError
    from .errors import UnsupportedOperationError as UnsupportedOperationError
    from .errors import VersionNotSupportedError as VersionNotSupportedError
    from .push_receiver import PushReceiver as PushReceiver
    from .push_receiver import read_push as read_push
    from .streams import AsyncEventStream as AsyncEventStream
    from .streams import EventStream as EventStream
    from .transport import AsyncCardTransport as AsyncCardTransport
    from .transport import AsyncGrpcTransport as AsyncGrpcTransport
    from .transport import AsyncJsonRpcTransport as AsyncJsonRpcTransport
    from .transport import AsyncRestTransport as AsyncRestTransport
    from .transport import AsyncTransport as AsyncTransport
    from .transport import CardTransport as CardTransport
    from .transport import GrpcTransport as GrpcTransport
    from .transport import JsonRpcTransport as JsonRpcTransport
    from .transport import RestTransport as RestTransport
    from .transport import Transport as Transport
    from .types import AgentCapabilities as AgentCapabilities
    from .types import AgentCard as AgentCard
    from .types import AgentCardSignature as AgentCardSignature
    from .types import AgentExtension as AgentExtension
    from .types import AgentInterface as AgentInterface
    from .types import AgentProvider as AgentProvider
    from .types import AgentSkill as AgentSkill
    from .types import APIKeySecurityScheme as APIKeySecurityScheme
    from .types import Artifact as Artifact
    from .types import AuthenticationInfo as AuthenticationInfo
    from .types import CancelTaskRequest as CancelTaskRequest
    from .types import (
        DeleteTaskPushNotificationConfigRequest as DeleteTaskPushNotificationConfigRequest,
    )
    from .types import Event as Event
    from .types import GetExtendedAgentCardRequest as GetExtendedAgentCardRequest
    from .types import GetTaskPushNotificationConfigRequest as GetTaskPushNotificationConfigRequest
    from .types import GetTaskRequest as GetTaskRequest
    from .types import HTTPAuthSecurityScheme as HTTPAuthSecurityScheme
    from .types import (
        ListTaskPushNotificationConfigsRequest as ListTaskPushNotificationConfigsRequest,
    )
    from .types import (
        ListTaskPushNotificationConfigsResponse as ListTaskPushNotificationConfigsResponse,
    )
    from .types import ListTasksRequest as ListTasksRequest
    from .types import ListTasksResponse as ListTasksResponse
    from .types import Message as Message
    from .types import MessageSendConfiguration as MessageSendConfiguration
    from .types import MutualTlsSecurityScheme as MutualTlsSecurityScheme
    from .types import OAuth2SecurityScheme as OAuth2SecurityScheme
    from .types import OpenIdConnectSecurityScheme as OpenIdConnectSecurityScheme
    from .types import Part as Part
    from .types import Role as Role
    from .types import SecurityRequirement as SecurityRequirement
    from .types import SecurityScheme as SecurityScheme
    from .types import SendMessageConfiguration as SendMessageConfiguration
    from .types import SendMessageRequest as SendMessageRequest
    from .types import SubscribeToTaskRequest as SubscribeToTaskRequest
    from .types import Task as Task
    from .types import TaskArtifactUpdateEvent as TaskArtifactUpdateEvent
    from .types import TaskPushNotificationConfig as TaskPushNotificationConfig
    from .types import TaskResubscriptionRequest as TaskResubscriptionRequest
    from .types import TaskState as TaskState
    from .types import TaskStatus as TaskStatus
    from .types import TaskStatusUpdateEvent as TaskStatusUpdateEvent
    from .types import UnknownEvent as UnknownEvent

_MODULES = {
    "A2ACardSignatureError": ".errors",
    "A2AClient": ".client",
    "A2AConnectionError": ".errors",
    "A2AEmptyResultError": ".errors",
    "A2AError": ".errors",
    "A2AHTTPError": ".errors",
    "A2AJSONError": ".errors",
    "A2AJSONRPCError": ".errors",
    "A2ANoSupportedInterfaceError": ".errors",
    "A2AOriginError": ".errors",
    "A2APushError": ".errors",
    "A2AResponseTooLargeError": ".errors",
    "A2ASSEParseError": ".errors",
    "A2AStreamClosedError": ".errors",
    "A2ATimeoutError": ".errors",
    "A2ATokenError": ".errors",
    "APIKeySecurityScheme": ".types",
    "AgentCapabilities": ".types",
    "AgentCard": ".types",
    "AgentCardResolver": ".client",
    "AgentCardSignature": ".types",
    "AgentExtension": ".types",
    "AgentInterface": ".types",
    "AgentProvider": ".types",
    "AgentSkill": ".types",
    "Artifact": ".types",
    "AsyncA2AClient": ".aclient",
    "AsyncAgentCardResolver": ".aclient",
    "AsyncCardTransport": ".transport",
    "AsyncEventStream": ".streams",
    "AsyncGrpcTransport": ".transport",
    "AsyncJsonRpcTransport": ".transport",
    "AsyncRestTransport": ".transport",
    "AsyncTransport": ".transport",
    "Auth": "._auth",
    "AuthenticationInfo": ".types",
    "CallInfo": "._options",
    "CallOptions": "._options",
    "CancelTaskRequest": ".types",
    "CardKeys": "._card",
    "CardTransport": ".transport",
    "ClientCredentials": "._oauth",
    "ClientError": ".errors",
    "ContentTypeNotSupportedError": ".errors",
    "DeleteTaskPushNotificationConfigRequest": ".types",
    "Event": ".types",
    "EventStream": ".streams",
    "ExtendedAgentCardNotConfiguredError": ".errors",
    "ExtensionSupportRequiredError": ".errors",
    "GetExtendedAgentCardRequest": ".types",
    "GetTaskPushNotificationConfigRequest": ".types",
    "GetTaskRequest": ".types",
    "GrpcTransport": ".transport",
    "HTTPAuthSecurityScheme": ".types",
    "InternalError": ".errors",
    "InvalidAgentResponseError": ".errors",
    "InvalidParamsError": ".errors",
    "InvalidRequestError": ".errors",
    "JSONParseError": ".errors",
    "JsonRpcTransport": ".transport",
    "ListTaskPushNotificationConfigsRequest": ".types",
    "ListTaskPushNotificationConfigsResponse": ".types",
    "ListTasksRequest": ".types",
    "ListTasksResponse": ".types",
    "Message": ".types",
    "MessageSendConfiguration": ".types",
    "MethodNotFoundError": ".errors",
    "MutualTlsSecurityScheme": ".types",
    "OAuth2SecurityScheme": ".types",
    "OpenIdConnectSecurityScheme": ".types",
    "Options": "._options",
    "Part": ".types",
    "PushNotificationNotSupportedError": ".errors",
    "PushReceiver": ".push_receiver",
    "RestTransport": ".transport",
    "Role": ".types",
    "SecurityRequirement": ".types",
    "SecurityScheme": ".types",
    "SendMessageConfiguration": ".types",
    "SendMessageRequest": ".types",
    "SubscribeToTaskRequest": ".types",
    "Task": ".types",
    "TaskArtifactUpdateEvent": ".types",
    "TaskNotCancelableError": ".errors",
    "TaskNotFoundError": ".errors",
    "TaskPushNotificationConfig": ".types",
    "TaskResubscriptionRequest": ".types",
    "TaskState": ".types",
    "TaskStatus": ".types",
    "TaskStatusUpdateEvent": ".types",
    "Transport": ".transport",
    "UnknownEvent": ".types",
    "UnsupportedOperationError": ".errors",
    "VersionNotSupportedError": ".errors",
    "default_async_resolver": ".aclient",
    "default_resolver": ".client",
    "read_push": ".push_receiver",
    "verify_card": "._card_signatures",
}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
