"""The names of tools of MCP servers."""

import re

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm.tools.tool import unique_names


def test_unique_names_stay() -> None:
    assert unique_names(["a"], [("s", ["b", "c"]), ("t", ["d"])]) == [["b", "c"], ["d"]]


def test_a_name_that_is_used_twice_gets_the_name_of_its_server() -> None:
    assert unique_names(["a"], [("s", ["a", "b"]), ("t", ["b", "c"])]) == [
        ["s_a", "s_b"],
        ["t_b", "c"],
    ]


def test_servers_with_the_same_name() -> None:
    assert unique_names([], [("s", ["a"]), ("s", ["a"])]) == [["s_a"], ["s_a_2"]]


def test_other_characters_are_replaced() -> None:
    assert unique_names([], [("my server", ["files.read", "files/read"])]) == [
        ["my_server_files_read", "my_server_files_read_2"]
    ]


NAME = st.text(max_size=80) | st.sampled_from(["a", "b", "a_2", "s_a", "x" * 64])


@given(
    taken=st.sets(st.sampled_from(["a", "b", "s_a", "s_a_2"])),
    served=st.lists(st.tuples(NAME, st.lists(NAME, max_size=5)), max_size=4),
)
def test_all_names_are_valid_and_different(
    taken: set[str], served: list[tuple[str, list[str]]]
) -> None:
    names = unique_names(taken, served)
    assert [len(of_server) for of_server in names] == [len(tools) for _, tools in served]
    every = [*taken, *(name for of_server in names for name in of_server)]
    assert len(set(every)) == len(every)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in every)
    assert unique_names(taken, served) == names
