"""The error tree, its fields, and that they survive pickling."""

import copy
import pickle
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from uuid import UUID

import pytest

import coreason_client
from coreason_client import (
    ArgumentError,
    CAPConnectionError,
    CAPError,
    CAPProtocolError,
    CAPRuntimeError,
    CAPStreamReset,
    CAPTimeoutError,
    CoreasonError,
    MissingExtraError,
    Position,
)
from coreason_client import errors as root_errors
from coreason_client.cap import errors as cap_errors
from coreason_client.llm import LLMError
from coreason_client.llm import errors as llm_errors
from coreason_client.sse import SSEDecoder, SSEEventTooLarge
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError
from tests.each import each

ONE, TWO = UUID(int=1), UUID(int=2)
SECRET = "sk_very_secret"
POSITION = Position(stream_id=ONE, seq=7, cursor=SECRET)
FIELDS = {
    "position": POSITION,
    "attempts": 4,
    "method": "POST",
    "url": "https://agent.example/assist",
    "proxy": "http://proxy.example:3128",
    "status_code": 429,
    "headers": {"set-cookie": SECRET},
    "body": SECRET.encode(),
    "retry_after": 1.5,
    "stream_error": StreamError(
        code="c", message=SECRET, severity=ErrorSeverity.FATAL, details={"key": SECRET}
    ),
}
CAP_KINDS = [CAPError, CAPConnectionError, CAPProtocolError, CAPRuntimeError, CAPTimeoutError]
OWN_FIELDS = {"LLMBudgetError"}  # errors with other fields than the others
LLM_FIELDS = {
    "provider": "anthropic",
    "model": "claude",
    "status": 429,
    "code": "rate_limit_error",
    "request_id": "req_1",
    "retry_after": 1.5,
    "attempts": 4,
    "body": SECRET,
    "partial": {
        "status": "success",
        "data": {"content": SECRET, "tool_calls": [], "finish_reason": "stop"},
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 2,
            "total_tokens": 3,
            "cost_estimate": None,
        },
    },
    "argument_error": None,
    "invalid_because": "is not JSON",
}
LLM_KINDS: list[type[LLMError]] = [
    getattr(llm_errors, name) for name in llm_errors.__all__ if name not in OWN_FIELDS
]


def too_large() -> SSEEventTooLarge:
    """The error as the decoder raises it, after an event."""
    with pytest.raises(SSEEventTooLarge) as caught:
        SSEDecoder(20).feed(b"data: " + SECRET.encode() + b"\n\ndata: " + b"x" * 21)
    assert len(caught.value.events) == 1
    return caught.value


def examples() -> Iterator[CoreasonError]:
    yield CoreasonError("message")
    for kind in CAP_KINDS:
        yield kind("message")
        yield kind("message", **FIELDS)  # type: ignore[arg-type]
    yield CAPStreamReset(ONE, TWO)
    yield CAPStreamReset(ONE, TWO, position=POSITION)
    yield LLMError("message")
    for llm_kind in LLM_KINDS:
        yield llm_kind("message", **LLM_FIELDS)  # type: ignore[arg-type]
    yield llm_errors.LLMBudgetError("message", limit=5.0, used=4.9, reserved=0.2, key="team")
    yield MissingExtraError("coreason_client.llm", "llm")
    yield ArgumentError("api_key", "must not be empty")
    yield ArgumentError("timeout", "must be greater than 0", -1)
    yield too_large()


def repr_of_type(value: object) -> str:
    return type(value).__name__


every_error = pytest.mark.parametrize(
    "error", list(examples()), ids=lambda error: type(error).__name__
)


# The tree


def edges(drawing: str | None) -> Iterator[tuple[str, str]]:
    """The (parent, child) pairs of a tree that is drawn with box characters."""
    assert drawing is not None
    above: list[str] = []
    for line in drawing.splitlines():
        match = re.match(r"    ((?:[│ ]   )*)(?:[├└]── )?([A-Za-z0-9]+)", line)
        if match is None:
            continue
        depth = len(match[1]) // 4 + ("── " in line)
        above[depth:] = [match[2]]
        if depth:
            yield above[depth - 1], above[depth]


def error_modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(coreason_client.__path__, "coreason_client.")
    return [import_module(module.name) for module in found if module.name.endswith(".errors")]


def family(kind: type[CoreasonError]) -> Iterator[type[CoreasonError]]:
    for child in kind.__subclasses__():
        yield child
        yield from family(child)


def public_parent(kind: type[CoreasonError]) -> str:
    return next(base.__name__ for base in kind.__mro__[1:] if not base.__name__.startswith("_"))


@pytest.mark.proves("RFC004-5-tree")
def test_the_three_kinds_stand_directly_below_cap_error() -> None:
    for kind in (CAPConnectionError, CAPProtocolError, CAPRuntimeError):
        assert kind.__bases__ == (CAPError,)
    assert CAPError.__bases__ == (CoreasonError,)
    assert CoreasonError.__bases__ == (Exception,)


def test_every_tree_that_is_drawn_is_real_and_misses_no_error() -> None:
    modules = error_modules()
    assert {root_errors, cap_errors} <= set(modules)
    drawn = {edge for module in modules for edge in edges(module.__doc__)}
    real = {(public_parent(kind), kind.__name__) for kind in family(CoreasonError)}
    assert drawn <= real
    # By the name of the class: ClientError is another name of A2AError.
    exported = {getattr(module, name).__name__ for module in modules for name in module.__all__}
    assert exported | {"SSEEventTooLarge"} == {child for _, child in drawn} | {"CoreasonError"}


@every_error
def test_every_error_has_the_same_root(error: CoreasonError) -> None:
    assert isinstance(error, CoreasonError)


def test_every_kind_of_error_is_among_the_examples() -> None:
    known = {
        *(CoreasonError, *CAP_KINDS, CAPStreamReset, *LLM_KINDS, llm_errors.LLMBudgetError),
        *(ArgumentError, MissingExtraError, SSEEventTooLarge),
    }
    assert {type(error) for error in examples()} == known
    homes = (root_errors, cap_errors, llm_errors)
    assert {getattr(home, name) for home in homes for name in home.__all__} <= known


def test_the_names_are_exported_from_the_package() -> None:
    for home in (root_errors, cap_errors):
        for name in home.__all__:
            assert getattr(coreason_client, name) is getattr(home, name)


# Fields


@pytest.mark.parametrize("kind", CAP_KINDS)
@pytest.mark.proves("R08d")
def test_an_error_carries_its_fields(kind: type[CAPError]) -> None:
    error = kind("message", **FIELDS)  # type: ignore[arg-type]
    assert {name: getattr(error, name) for name in FIELDS} == FIELDS
    assert error.args == ("message",)


@pytest.mark.parametrize("kind", CAP_KINDS)
def test_a_field_that_is_not_given_is_none(kind: type[CAPError]) -> None:
    error = kind("message")
    assert {name: getattr(error, name) for name in FIELDS} == dict.fromkeys(FIELDS) | {
        "attempts": 0
    }


@pytest.mark.parametrize("kind", LLM_KINDS)
def test_an_error_of_the_ai_client_carries_its_fields(kind: type[LLMError]) -> None:
    error = kind("message", **LLM_FIELDS)  # type: ignore[arg-type]
    assert vars(error) == LLM_FIELDS | {"spent": None}
    assert error.args == ("message",)
    assert vars(kind("message")) == dict.fromkeys(LLM_FIELDS) | {"attempts": 0, "spent": None}


@pytest.mark.proves("R11b")
def test_a_reset_is_a_protocol_error_that_names_both_streams() -> None:
    error = CAPStreamReset(ONE, TWO, position=POSITION)
    assert isinstance(error, CAPProtocolError)
    assert (error.expected, error.received, error.position) == (ONE, TWO, POSITION)
    assert str(ONE) in str(error)
    assert str(TWO) in str(error)


def test_a_missing_extra_is_an_import_error_that_says_what_to_install() -> None:
    error = MissingExtraError("coreason_client.llm", "llm")
    assert isinstance(error, ImportError)
    assert (error.part, error.extra) == ("coreason_client.llm", "llm")
    assert "coreason_client.llm" in str(error)
    assert "pip install 'coreason-client[llm]'" in str(error)


# Arguments


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-1, "-1"),
        (float("nan"), "nan"),
        (None, "None"),
        (False, "False"),
        ("x", "'x'"),
        ("x" * 1000, f"'{'x' * 78}…"),
        (10**5000, "a value of type int"),
        ([SECRET], "a value of type list"),
        ({"key": SECRET}, "a value of type dict"),
    ],
    ids=repr_of_type,
)
def test_an_argument_error_says_what_was_given(value: object, shown: str) -> None:
    error = ArgumentError("timeout", "must be greater than 0", value)
    assert isinstance(error, ValueError)
    assert (error.argument, error.rule) == ("timeout", "must be greater than 0")
    assert error.value is value
    assert str(error) == f"timeout must be greater than 0, got {shown}"


def test_an_argument_error_of_a_secret_has_no_value() -> None:
    error = ArgumentError("api_key", "must not have spaces")
    assert error.value is None
    assert str(error) == "api_key must not have spaces"
    assert str(error.renamed("LLM_API_KEY")) == "LLM_API_KEY must not have spaces"


def test_an_argument_error_can_have_the_name_of_an_option() -> None:
    error = ArgumentError("max_retries", "must be 0 or more", -1).renamed("--max-retries")
    assert (error.argument, error.rule, error.value) == ("--max-retries", "must be 0 or more", -1)
    assert str(error) == "--max-retries must be 0 or more, got -1"


def test_an_error_of_the_ai_client_keeps_its_argument_error() -> None:
    wrong = ArgumentError("temperature", "must be a number from 0 to 1", 9)
    error = llm_errors.LLMRequestError(str(wrong), argument_error=wrong)
    copied = pickle.loads(pickle.dumps(error))
    assert vars(copied.argument_error) == vars(wrong)


@every_error
def test_words_repeat_no_field(error: CoreasonError) -> None:
    assert SECRET not in str(error)
    assert SECRET not in repr(error)
    assert str(error)


# Pickling, as processes and task queues do


@every_error
@each("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.proves("R08d")
def test_pickling_keeps_the_kind_the_words_and_every_field(
    error: CoreasonError, protocol: int
) -> None:
    copied = pickle.loads(pickle.dumps(error, protocol))
    assert type(copied) is type(error)
    assert copied.args == error.args
    assert str(copied) == str(error)
    assert vars(copied) == vars(error)


@every_error
def test_copying_keeps_every_field(error: CoreasonError) -> None:
    for copied in (copy.copy(error), copy.deepcopy(error)):
        assert type(copied) is type(error)
        assert vars(copied) == vars(error)
