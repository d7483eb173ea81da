"""The comments of a page about its blocks, and the comparison of output."""

import pytest

from tests.each import each

from .blocks import BlockError, matches, parse

PAGE = """# Title

```python
print(1)
```

```text
1
```

<!-- model says: Blue. -->
<!-- not run: it needs a camera -->
```sh
photo --now
```

=== "After"

    ```python title="agent.py"
    def agent():
        return 1
    ```

```text
not the output of a file that is above some words
```
"""


def test_a_page_is_split_into_blocks() -> None:
    program, command, file = parse(PAGE.rpartition("```text")[0], "a.md")
    assert (program.line, program.code, program.output) == (4, "print(1)\n", "1\n")
    assert command.not_run == "it needs a camera"
    assert command.comments[0] == "model says: Blue."
    assert (file.title, file.code) == ("agent.py", "def agent():\n    return 1\n")
    assert (file.indent, file.not_run, file.comments) == (4, None, ())


def test_output_belongs_to_the_block_directly_above() -> None:
    text = "```python\nprint(1)\n```\n\nIt prints:\n\n```text\n2\n```\n"
    program, shown = parse(text, "a.md")
    assert (program.output, shown.language) == (None, "text")


@each(
    ("text", "message"),
    [
        ("```\nls\n```\n", "a.md:1: the block has no language"),
        ("\n```ruby\nputs 1\n```\n", "a.md:2: the language 'ruby' is not known"),
        ("<!-- not run: -->\n```sh\nls\n```\n", "a.md:2: say why"),
        ("<!-- skipped -->\n```sh\nls\n```\n", "a.md:2: the comment 'skipped' is not known"),
        ("```sh\nls\n", "a.md:1: the block is not closed"),
        ('```python title="../a.py"\n1\n```\n', "a.md:1: the title '../a.py' is not a file"),
    ],
)
def test_a_block_that_is_not_explained_is_named(text: str, message: str) -> None:
    with pytest.raises(BlockError) as caught:
        parse(text, "a.md")
    assert str(caught.value).startswith(message)


@each(
    ("expected", "printed", "same"),
    [
        ("1\n2\n", "1\n2\n", True),
        ("1\n2\n", "1\n3\n", False),
        ("1\n2\n", "1\n2\n3\n", False),
        ("1  \n2", "1\n2   \n\n", True),
        ("1\n...\n4\n", "1\n2\n3\n4\n", True),
        ("1\n...\n4\n", "1\n4\n", True),
        ("1\n...\n", "1\n2\n3\n", True),
        ("1\n...\n", "1\n", True),
        ("1\n...\n", "2\n", False),
        ("...\n4\n", "1\n4\n", True),
        ("id ... is new\n", "id 3f9a is new\n", True),
        ("id ... is new\n", "id 3f9a\nis new\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared_line_by_line(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same


def test_what_a_server_says_about_a_busy_machine_does_not_count() -> None:
    busy = "WARNING this process did not run for 2.0 s: it was stopped, or the machine is too busy"
    assert matches("one\ntwo", f"one\n{busy}\ntwo\n")
    assert not matches("one\ntwo", "one\nWARNING another line\ntwo\n")
