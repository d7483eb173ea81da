"""Tools of a run: names, definitions and the functions behind them."""

import functools
from typing import Any

import pytest

from coreason_client.llm import LLMRequestError, Tool
from coreason_client.llm.tools._function_schema import ArgumentsError
from coreason_client.llm.tools.tool import RunnableTool, Toolset, function_tool, is_async
from coreason_client.server import step


def weather(city: str) -> str:
    """Return the weather."""
    return f"blue in {city}"


async def later(city: str) -> str:
    return city


class Callable:
    async def __call__(self, city: str) -> str:
        return city


def made(tool: Any, *, allow_async: bool = True) -> RunnableTool:
    return function_tool(tool, "tools[0]", allow_async=allow_async)


def test_a_function_is_a_tool() -> None:
    tool = made(weather)
    assert tool.definition == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Return the weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
    assert tool.bind({"city": "Rome"})() == "blue in Rome"
    with pytest.raises(ArgumentsError):
        tool.bind({"town": "Rome"})
    assert (tool.is_async, tool.timeout, tool.on_restart) == (False, None, "rerun")


def test_a_tool_value_has_precedence() -> None:
    tool = made(Tool(weather, "sky", "Look up.", timeout=5, on_restart="fail"))
    assert (tool.name, tool.description, tool.timeout) == ("sky", "Look up.", 5)
    assert tool.on_restart == "fail"
    assert made(Tool(weather, description="")).definition["function"].keys() == {
        "name",
        "parameters",
    }


def test_an_explicit_schema_is_not_validated() -> None:
    def anything(**arguments: Any) -> Any:
        """Take it."""
        return arguments

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    tool = made(Tool(anything, parameters=schema))
    assert (tool.description, tool.parameters) == ("Take it.", schema)
    assert tool.bind({"x": "no integer"})() == {"x": "no integer"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (weather, False),
        (later, True),
        (Callable(), True),
        (functools.partial(later, city="Rome"), True),
        (functools.partial(weather, city="Rome"), False),
        (step(weather), True),
    ],
)
def test_which_functions_are_async(function: Any, *, expected: bool) -> None:
    assert is_async(function) is expected


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(LLMRequestError, match=r"tools\[0\] must have a name"):
        made(Callable())
    assert made(Tool(Callable(), "call")).name == "call"


def test_an_async_function_in_the_sync_client() -> None:
    with pytest.raises(LLMRequestError, match="'later'; use AsyncLLMClient"):
        made(later, allow_async=False)


def test_the_tools_of_servers_get_unique_names() -> None:
    tool = made(weather)
    toolset = Toolset([tool], [("one", [tool]), ("two", [tool])])
    names = [definition["function"]["name"] for definition in toolset.definitions]
    assert names == ["weather", "one_weather", "two_weather"]
    assert toolset.find("two_weather") is not None
    assert toolset.find("three") is None
    assert toolset.unknown("three") == (
        "there is no tool 'three'; the tools are: weather, one_weather, two_weather"
    )
    assert Toolset([]).unknown("x" * 1000).count("x") == 100
