"""Calls everything that the SDK of OpenAI has for this API, and returns what it got as JSON.

It runs in the tests with the installed version, and as a program with others. Arguments: the URL of
the API, a key, the model and the question with a long answer.
"""

import asyncio
import inspect
import json
import sys
from typing import Any

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


class Judge:
    """A client, sync or async, and what is asked."""

    def __init__(self, client: Any, model: str, question: str) -> None:
        self._client = client
        self._model = model
        self._question = question

    async def run(self) -> dict[str, Any]:
        return {
            **await self.models(),
            **await self.chat(),
            **await self.response(),
            **await self.helper(),
            **await self.resumed(),
            **await self.background(),
            **await self.deleted(),
        }

    async def models(self) -> dict[str, Any]:
        models = self._client.models
        listed = await _collect(await _result(models.list()))
        found = await _result(models.retrieve(self._model))
        return {
            "models": [model.id for model in listed],
            "model": found.id,
            "unknown model": await _refused(models.retrieve, "unknown"),
        }

    async def chat(self) -> dict[str, Any]:
        asked: Any = {
            "model": self._model,
            "messages": [{"role": "user", "content": self._question}],
        }
        create = self._client.chat.completions.create
        whole = _valid(ChatCompletion, await _result(create(**asked)))
        [choice] = whole["choices"]
        message = choice["message"]
        plain = [_valid(ChatCompletionChunk, one) for one in await self._chunks(**asked)]
        options = {"include_usage": True}
        counted = await self._chunks(**asked, stream_options=options)
        *parts, last = [_valid(ChatCompletionChunk, one) for one in counted]
        return {
            "chat": {**_spoken([message]), "finish_reason": choice["finish_reason"]},
            "chat usage": whole["usage"],
            "chunks": _of_chunks(plain),
            "chunks have usage": any("usage" in one for one in plain),
            "counted chunks": _of_chunks(parts),
            "usage before the last chunk": [one["usage"] for one in parts if one["usage"]],
            "last chunk": [last["choices"], last["usage"]],
            "ids of chunks": len({one["id"] for one in (*parts, last)}),
            "chat helper": await self._chat_helper(asked),
        }

    async def _chat_helper(self, asked: Any) -> dict[str, Any]:
        """Use `chat.completions.stream`, which adds the chunks up itself."""
        _, final = await _streamed(self._client.chat.completions.stream(**asked))
        [choice] = final.to_dict(mode="json")["choices"]
        return {**_spoken([choice["message"]]), "finish_reason": choice["finish_reason"]}

    async def _chunks(self, **asked: Any) -> list[Any]:
        stream = await _result(self._client.chat.completions.create(**asked, stream=True))
        return await _collect(stream)

    async def response(self) -> dict[str, Any]:
        responses = self._client.responses
        made = await _result(responses.create(model=self._model, input=self._question))
        read = await _result(responses.retrieve(made.id))
        items = await _collect(await _result(responses.input_items.list(made.id)))
        return {
            "response": _valid(Response, made),
            "text": made.output_text,
            "read": _valid(Response, read) == _valid(Response, made),
            "input items": [item.content[0].text for item in items],
        }

    async def helper(self) -> dict[str, Any]:
        """Use `responses.stream`, which keeps a snapshot and builds the response itself."""
        stream = self._client.responses.stream(model=self._model, input=self._question)
        events, final = await _streamed(stream)
        snapshots = [one for one in events if one.type == "response.output_text.delta"]
        done = [one for one in events if one.type == "response.output_text.done"]
        return {
            "helper": final.output_text,
            "snapshots": [one.snapshot for one in snapshots],
            "done texts": [one.text for one in done],
        }

    async def resumed(self) -> dict[str, Any]:
        """Read a response again after each of its events."""
        responses = self._client.responses
        asked = responses.create(model=self._model, input=self._question, stream=True)
        events = [_valid(_EVENT, one) for one in await _collect(await _result(asked))]
        name = events[0]["response"]["id"]
        wrong = []
        for after in range(-1, len(events)):
            given = {"starting_after": after} if after >= 0 else {}
            stream = await _result(responses.retrieve(name, stream=True, **given))
            rest = [_dump(one) for one in await _collect(stream)]
            if rest != events[after + 1 :]:
                wrong.append([after, rest])
        return {
            "events": events,
            "wrong": wrong,
            "filtered wrong": await self._filtered_wrong(name, events),
        }

    async def _filtered_wrong(self, name: str, events: list[dict[str, Any]]) -> list[Any]:
        """Read a response with the helper, which reads it from its start and leaves events out."""
        deltas = [one for one in events if one["type"] == "response.output_text.delta"]
        text = "".join(one["delta"] for one in deltas)
        ids = [item["id"] for item in events[-1]["response"]["output"]]
        wrong = []
        for after in range(-1, len(events)):
            given = {"starting_after": after} if after >= 0 else {}
            stream = self._client.responses.stream(response_id=name, **given)
            filtered, final = await _streamed(stream)
            numbers = [one.sequence_number for one in filtered]
            is_whole = [item.id for item in final.output] == ids and final.output_text == text
            if numbers != list(range(after + 1, len(events))) or not is_whole:
                wrong.append([after, numbers])
        return wrong

    async def background(self) -> dict[str, Any]:
        responses = self._client.responses
        made = await _result(responses.create(model=self._model, input="Wait", background=True))
        read = await self._until(made.id, "Working.")
        cancelled = await _result(responses.cancel(made.id))
        after = await _result(responses.retrieve(made.id, stream=True))
        last = _valid(_EVENT, (await _collect(after))[-1])
        return {
            "background": [made.status, read.status, read.output_text],
            "cancelled": [cancelled.status, cancelled.output_text],
            "last event of a cancelled one": [last["type"], last["response"]["status"]],
            "cancelled again": (await _result(responses.cancel(made.id))).status,
        }

    async def _until(self, name: str, text: str) -> Any:
        while True:
            read = await _result(self._client.responses.retrieve(name))
            if read.output_text == text:
                return read
            await asyncio.sleep(0.01)

    async def deleted(self) -> dict[str, Any]:
        responses = self._client.responses
        made = await _result(responses.create(model=self._model, input="Hello"))
        none = await _result(responses.delete(made.id))
        return {
            "deleted": none,
            "gone": [
                await _refused(responses.retrieve, made.id),
                await _refused(responses.retrieve, made.id, stream=True),
                await _refused(responses.cancel, made.id),
                await _refused(responses.delete, made.id),
                await _refused(responses.input_items.list, made.id),
                await _refused(
                    responses.create, model=self._model, input="Hi", previous_response_id=made.id
                ),
            ],
        }


def _of_chunks(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert [choice["index"] for choice in choices] == [0] * len(chunks)
    assert choices[0]["delta"]["role"] == "assistant"
    *others, last = [choice["finish_reason"] for choice in choices]
    assert set(others) == {None}
    return {**_spoken([choice["delta"] for choice in choices]), "finish_reason": last}


def _spoken(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what messages, or pieces of one, say together."""
    assert not any(message.get("tool_calls") for message in messages)
    return {
        "content": "".join(message.get("content") or "" for message in messages),
        "reasoning": "".join(message.get("reasoning_content") or "" for message in messages),
        "annotations": [one for message in messages for one in message.get("annotations") or ()],
    }


def _valid(kind: Any, value: BaseModel) -> dict[str, Any]:
    """Return an object as it came, which must have all that the types of the SDK require."""
    came = _dump(value)
    check = kind.validate_python if isinstance(kind, TypeAdapter) else kind.model_validate
    check(came)
    return came


def _dump(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = value.to_dict(mode="json")
    return found


async def _result(call: Any) -> Any:
    return await call if inspect.isawaitable(call) else call


async def _collect(stream: Any) -> list[Any]:
    if hasattr(stream, "__aiter__"):
        return [one async for one in stream]
    return list(stream)


async def _streamed(manager: Any) -> tuple[list[Any], Any]:
    """Return the events of a stream helper, and the answer that it has put together."""
    if hasattr(manager, "__aenter__"):
        async with manager as stream:
            return [one async for one in stream], await _final(stream)()
    with manager as stream:
        return list(stream), _final(stream)()


def _final(stream: Any) -> Any:
    if hasattr(stream, "get_final_response"):
        return stream.get_final_response
    return stream.get_final_completion


async def _refused(call: Any, *args: Any, **options: Any) -> list[Any]:
    """Return the class of the error that a call raises, its status and its code."""
    try:
        await _result(call(*args, **options))
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code]
    return ["no error"]


async def judge(api: str, key: str, model: str, question: str, kind: str) -> dict[str, Any]:
    options: Any = {"api_key": key, "base_url": api, "timeout": 10, "max_retries": 0}
    if kind == "sync":
        with openai.OpenAI(**options) as client:
            return await Judge(client, model, question).run()
    async with openai.AsyncOpenAI(**options) as other:
        return await Judge(other, model, question).run()


async def main(api: str, key: str, model: str, question: str) -> dict[str, Any]:
    kinds = ("sync", "async")
    found = {kind: await judge(api, key, model, question, kind) for kind in kinds}
    return {"version": openai.__version__, **found}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
