"""Wrong input: JSON that is changed at any place, bytes that are damaged, any chunks.

Random bytes are refused by the first check they meet. What comes deep into a program is almost
right, so most of this starts from something real and spoils it in one to three places.
"""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st

__all__ = ["CANARY", "anything", "damaged", "examples", "mutated", "wire"]

CANARY = "☠canary☠"
"""Stands in places that no answer and no error may repeat."""


def examples(count: int) -> settings:
    """So many examples in a normal run, and in a longer one as many times more as it is longer."""
    return settings(max_examples=max(1, count * settings().max_examples // 100))


Path: TypeAlias = tuple[str | int, ...]

# What programs stumble over, in places where something else was expected.
_NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**64,
    10**40,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "0",
    "\0",
    "\r\nX-Injected: 1",
    "\u2028",
    "\ud800",
    CANARY,
    CANARY * 200,
    "../../etc/passwd",
    [],
    [[]],
    {},
    {"": None},
    {CANARY: CANARY},
)

_scalars = (
    st.sampled_from([value for value in _NASTY if not isinstance(value, list | dict)])
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
)


def _trees(leaves: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )


def anything(*names: str) -> st.SearchStrategy[Any]:
    """Any JSON value; these names are likely as members of objects."""
    known = st.sampled_from(names) if names else st.nothing()
    # Copies: what is drawn may be changed further.
    return _trees(_scalars, known | st.text(max_size=6)) | st.sampled_from(_NASTY).map(deepcopy)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[Any]) -> Any:
    """One of the seeds, changed in one to three places; now and then not at all."""
    value = deepcopy(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 3))):
        value = _changed(draw, value)
    return value


def _changed(draw: st.DrawFn, value: Any) -> Any:
    path = draw(st.sampled_from(list(_paths(value))))
    if not path:
        return draw(st.sampled_from([value, [value], {"x": value}]) | anything())
    parent = _at(value, path[:-1])
    _CHANGES[draw(st.sampled_from(sorted(_CHANGES)))](draw, value, parent, path[-1])
    return value


def _replace(draw: st.DrawFn, _: Any, parent: Any, place: Any) -> None:
    parent[place] = draw(anything())


def _remove(draw: st.DrawFn, _: Any, parent: Any, place: Any) -> None:
    del parent[place]


def _rename(draw: st.DrawFn, _: Any, parent: Any, place: Any) -> None:
    """Give a member another name; of a list, take the item to another place."""
    if isinstance(parent, dict):
        parent[draw(st.sampled_from([CANARY, "", f"{place} ", str(place).upper()]))] = parent.pop(
            place
        )
    else:
        parent.insert(0, parent.pop(place))


def _repeat(draw: st.DrawFn, _: Any, parent: Any, place: Any) -> None:
    """Say something twice: as items of a list, else inside of one."""
    if isinstance(parent, list):
        parent.insert(place, deepcopy(parent[place]))
    else:
        parent[place] = [parent[place], deepcopy(parent[place])]


def _wrap(draw: st.DrawFn, _: Any, parent: Any, place: Any) -> None:
    parent[place] = draw(st.sampled_from([[parent[place]], {"x": parent[place]}]))


def _transplant(draw: st.DrawFn, whole: Any, parent: Any, place: Any) -> None:
    """Put what stands elsewhere here."""
    parent[place] = deepcopy(_at(whole, draw(st.sampled_from(list(_paths(whole))))))


def _add(draw: st.DrawFn, _: Any, parent: Any, place: Any) -> None:
    if isinstance(parent, dict):
        parent[draw(st.sampled_from([CANARY, "__proto__", "type", "id"]))] = draw(anything())
    else:
        parent.append(draw(anything()))


_CHANGES = {
    "add": _add,
    "remove": _remove,
    "rename": _rename,
    "repeat": _repeat,
    "replace": _replace,
    "transplant": _transplant,
    "wrap": _wrap,
}


def _paths(value: Any, here: Path = ()) -> Iterator[Path]:
    yield here
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _paths(member, (*here, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*here, index))


def _at(value: Any, path: Path) -> Any:
    for place in path:
        value = value[place]
    return value


def wire(value: Any) -> bytes:
    """JSON as it goes over the wire, with what only lenient writers send: NaN, half surrogates."""
    return json.dumps(value).encode()


@st.composite
def damaged(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with bytes cut out, put in, duplicated or turned over."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        piece = data[start:end]
        put = draw(
            st.sampled_from(
                [b"", piece * 2, piece[::-1], b"\0", b"\xff", b"\xc3", b'"', b"\n\n", b"{", b"\r"]
            )
            | st.binary(max_size=8)
        )
        data = data[:start] + put + data[end:]
    return data
