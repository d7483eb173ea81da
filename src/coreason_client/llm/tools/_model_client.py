"""The part of the clients that a run uses."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from ..observe._observation import Observation
from ..streams import AsyncLLMStream, LLMStream
from ..types import Response

__all__ = ["AsyncModelClient", "ModelClient"]


class AsyncModelClient(Protocol):
    """The async client, as a run sees it."""

    _observation: Observation

    def generate(
        self, messages: Sequence[Mapping[str, Any]], **options: Any
    ) -> Awaitable[Response]: ...

    def stream(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> AsyncLLMStream: ...


class ModelClient(Protocol):
    """The sync client, as a run sees it."""

    deadline: float | None
    timeout: float
    _observation: Observation

    def generate(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Response: ...

    def stream(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> LLMStream: ...
