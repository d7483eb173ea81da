"""Tools and the choice among them: every valid form is accepted, any other is rejected."""

from typing import Any

import pytest

from coreason_client.llm._check_call import CheckedTools, check_tool_choice, check_tools

from .calls import WEATHER, rejection, tool

WRONG_TOOLS: list[tuple[Any, str]] = [
    ("f", "tools must be a list of tools"),
    ({}, "tools must be a list of tools"),
    (WEATHER, "tools must be a list of tools, got a value of type dict"),
    (["f"], 'tools[0] must be {"type": "function", "function": {…}}'),
    ([None], "tools[0] must be"),
    ([tool], "; Python functions go to run(), which executes them, got"),
    ([{}], "tools[0] must be"),
    ([{"name": "f", "parameters": {}}], "tools[0] must be"),
    ([{"type": ""}], "tools[0] must be"),
    ([{"type": 5}], "tools[0] must be"),
    ([{"type": "function"}], "tools[0].function must be an object"),
    ([{"type": "function", "function": "f"}], "tools[0].function must be an object"),
    ([{"type": "function", "name": "f"}], "tools[0] must not have 'name': a tool has no such key"),
    ([WEATHER, {**WEATHER, "strict": True}], "tools[1] must not have 'strict'"),
    ([WEATHER, WEATHER], "tools[1].function.name must be unique, got 'get_weather' twice"),
    ([{"type": "function", "function": {}}], "tools[0].function.name must be 1 to 64 letters"),
    (tool(name=""), "tools[0].function.name must be"),
    (tool(name=5), "tools[0].function.name must be"),
    (tool(name="a b"), "tools[0].function.name must be"),
    (tool(name="f\n"), "tools[0].function.name must be"),
    (tool(name="größe"), "tools[0].function.name must be"),
    (tool(name="x" * 65), "tools[0].function.name must be"),
    (tool(description=5), "tools[0].function.description must be text"),
    (tool(description=None), "tools[0].function.description must be text"),
    (tool(parameters=None), "tools[0].function.parameters must be a JSON schema"),
    (tool(parameters=[]), "tools[0].function.parameters must be a JSON schema"),
    (tool(parameters="{}"), "tools[0].function.parameters must be a JSON schema"),
    (tool(strict="yes"), "tools[0].function.strict must be true or false"),
    (
        tool(input_schema={}),
        "tools[0].function must not have 'input_schema': a function has no such key",
    ),
]


@pytest.mark.proves("AI-4-tools")
@pytest.mark.parametrize(("tools", "words"), WRONG_TOOLS)
def test_the_error_for_a_wrong_tool_names_its_location(tools: Any, words: str) -> None:
    assert words in rejection(check_tools, tools)


@pytest.mark.proves("AI-4-tools")
@pytest.mark.parametrize(
    "tools",
    [
        [WEATHER],
        (WEATHER,),
        tool(),
        tool(name="a-Z_0" * 12),
        tool(description="", parameters={}, strict=True),
        [],
        [*tool(), WEATHER],
        [{"type": "web_search"}, {"type": "web_search"}, WEATHER],
        [{"googleSearch": {}}, {"systemTool": {"name": "nova_grounding"}}],
    ],
)
def test_a_tool_in_the_format_of_openai_or_of_a_provider_is_accepted(tools: Any) -> None:
    assert list(check_tools(tools)) == list(tools)


def test_no_tools_are_an_empty_sequence() -> None:
    assert list(check_tools(None)) == []


@pytest.mark.parametrize("length", [1, 64])
def test_the_name_of_a_function_has_1_to_64_characters(length: int) -> None:
    assert check_tools(tool(name="x" * length))


@pytest.mark.parametrize(
    ("choice", "tools", "taken"),
    [
        (None, [WEATHER], None),
        ("auto", [WEATHER], "auto"),
        ("none", [WEATHER], "none"),
        ("required", [WEATHER], "required"),
        ("auto", None, None),
        ("none", [], None),
        ({"type": "function", "function": {"name": "get_weather"}}, [WEATHER], "tool:get_weather"),
    ],
)
def test_a_choice_of_tools_is_accepted(choice: Any, tools: Any, taken: str | None) -> None:
    assert check_tool_choice(choice, tools or ()) == taken


WRONG_CHOICES: list[Any] = [
    *("", "any", 5, [], {}, "get_weather", {"type": "function"}, {"name": "f"}),
    {"type": "tool", "function": {"name": "get_weather"}},
    {"type": "function", "function": "get_weather"},
    {"type": "function", "function": {"name": 5}},
]
FUNCTION_IN_TOOLS = "tool_choice must name a function in tools, got "


@pytest.mark.parametrize(
    ("choice", "tools", "words"),
    [
        *((choice, [WEATHER], "tool_choice must be") for choice in WRONG_CHOICES),
        (
            {"type": "function", "function": {"name": "other"}},
            [WEATHER],
            f"{FUNCTION_IN_TOOLS}'other'",
        ),
        ({"type": "function", "function": {"name": "f"}}, [], f"{FUNCTION_IN_TOOLS}'f'"),
        ("required", [], 'tool_choice "required" needs at least one tool; pass tools'),
    ],
)
def test_a_wrong_choice_of_tools_is_rejected(choice: Any, tools: Any, words: str) -> None:
    assert words in rejection(check_tool_choice, choice, tools)


def test_checked_tools_are_not_checked_again() -> None:
    tools = CheckedTools([{"type": "anything"}])
    assert check_tools(tools) is tools
