"""The first word after `coreason chat` may be a profile."""

from coreason_client.cli.profiles import looks_like_name, split_profile
from tests.each import each

NAMES = {"prod", "test"}


@each(
    ("arguments", "option", "chosen"),
    [
        (["prod"], None, ("prod", [])),
        (["prod", "Hello"], None, ("prod", ["Hello"])),
        (["prod", "-"], None, ("prod", ["-"])),
        (["Prod"], None, (None, ["Prod"])),
        (["prod?"], None, (None, ["prod?"])),
        (["prod is down"], None, (None, ["prod is down"])),
        (["Hello", "prod"], None, (None, ["Hello", "prod"])),
        ([], None, (None, [])),
        (["prod"], "test", ("test", ["prod"])),
        ([], "missing", ("missing", [])),
    ],
)
def test_only_a_first_word_that_exists_is_a_profile(
    arguments: list[str], option: str | None, chosen: tuple[str | None, list[str]]
) -> None:
    assert split_profile(arguments, option, lambda: NAMES) == chosen


def test_the_file_is_not_read_for_a_question() -> None:
    def names() -> set[str]:
        raise AssertionError

    for arguments in ([], ["-"], ["What is it?"], ["why?", "prod"]):
        assert not looks_like_name(arguments)
        split_profile(arguments, None, names)
    split_profile(["prod"], "test", names)
