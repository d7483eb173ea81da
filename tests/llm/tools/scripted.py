"""A client whose model follows a script, without a connection."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from coreason_client.llm import Delta, Finish, Response, TextDelta, UsageDelta
from coreason_client.llm.observe._observation import Observation

__all__ = ["Model"]


class Model:
    """A client whose answers are a list, chosen by the number of answers in the conversation."""

    def __init__(self, *answers: Response | Exception, pieces: int = 3) -> None:
        self.answers = answers
        self.asked: Counter[int] = Counter()
        self.pieces = pieces
        self._observation = Observation(telemetry=False)
        self._target = SimpleNamespace(api_key=None, keys={})

    default_model = "m"

    def accepts_prefix(self, model: str) -> bool:
        return False

    async def generate(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Response:
        turn = sum(message["role"] == "assistant" for message in messages)
        self.asked[turn] += 1
        answer: Any = self.answers[turn]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def stream(
        self, messages: Sequence[Mapping[str, Any]], model: str = "m", **options: Any
    ) -> Any:
        return _Stream(self, messages)


class _Stream:
    def __init__(self, model: Model, messages: Sequence[Mapping[str, Any]]) -> None:
        self._deltas = self._read(model, messages)

    async def _read(
        self, model: Model, messages: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[Delta]:
        answer = await model.generate(messages)
        self._response = answer
        content = answer["data"]["content"] or ""
        size = -(-len(content) // model.pieces) or 1
        for start in range(0, len(content), size):
            yield TextDelta(content[start : start + size])
        yield UsageDelta(answer["usage"])
        yield Finish(answer["data"]["finish_reason"])

    def __aiter__(self) -> Any:
        return self._deltas

    async def __anext__(self) -> Delta:
        return await anext(self._deltas)

    async def result(self) -> Response:
        return self._response

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._deltas.aclose()
