"""Random sequences of commands for the rules of the state, in Python and in Valkey."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from coreason_client.llm.router._rules import Account, Acquire, Candidate, Learned, Settle

__all__ = [
    "ACCOUNTS",
    "CANDIDATES",
    "OPERATIONS",
    "START",
    "Finish",
    "Operation",
    "Pass",
    "Repeat",
    "Reserve",
    "play",
]

DAY = 86_400_000
START = 1_800_000_000_000  # the time of the first command, in milliseconds since 1970
ACCOUNTS = (Account("client", 1000), Account("key", 300, START + DAY))
CANDIDATES = (
    Candidate("a", 10, (100, 60), 2, None),
    Candidate("b", 25, (40, 40), None, 60),
    Candidate("c", 5, (400, 10)),
)
EXPIRY = 30_000


@dataclass(frozen=True)
class Reserve:
    candidates: tuple[int, ...]
    accounts: int = 2
    ms: int = EXPIRY


@dataclass(frozen=True)
class Finish:
    which: int  # of the open reservations, oldest first
    amounts: tuple[int | None, int | None] | None
    tokens: int | None
    outcome: Any
    cooldown: int | None
    learned: tuple[Learned, ...] = ()


@dataclass(frozen=True)
class Repeat:
    """The last command again, as after a lost reply."""


@dataclass(frozen=True)
class Pass:
    ms: int


Operation: TypeAlias = Reserve | Finish | Repeat | Pass

_LEARNED = st.builds(
    Learned,
    st.sampled_from(["requests", "tokens"]),
    st.integers(-5, 40),
    st.integers(0, 100),
    st.integers(1, 90_000),
)
OPERATIONS = st.lists(
    st.one_of(
        st.builds(
            Reserve,
            st.permutations([0, 1, 2]).flatmap(
                lambda order: st.integers(1, 3).map(lambda n: tuple(order[:n]))
            ),
            st.integers(0, 2),
            st.sampled_from([EXPIRY, 1000, 90_000]),
        ),
        st.builds(
            Finish,
            st.integers(0, 5),
            st.none() | st.tuples(*[st.none() | st.integers(0, 500)] * 2),
            st.none() | st.integers(0, 100),
            st.sampled_from(["success", "failure", "neutral"]),
            st.none() | st.integers(0, 70_000),
            st.lists(_LEARNED, max_size=2).map(tuple),
        ),
        st.just(Repeat()),
        st.builds(Pass, st.sampled_from([0, 1, 400, 1000, 2000, 29_999, 61_000])),
    ),
    max_size=40,
)


def play(operations: list[Operation]) -> list[tuple[int, Acquire | Settle]]:
    """Return the commands of operations, each with its time.

    A reservation counts as open though it may have been refused: settling it then has no effect.
    """
    now, count = START, 0
    open_: list[Acquire] = []
    commands: list[tuple[int, Acquire | Settle]] = []
    for operation in operations:
        if isinstance(operation, Pass):
            now += operation.ms
        elif isinstance(operation, Repeat):
            commands += [(now, commands[-1][1])] if commands else []
        elif isinstance(operation, Reserve):
            count += 1
            some = [CANDIDATES[index] for index in operation.candidates]
            chosen = [
                Candidate(
                    one.deployment,
                    one.tokens,
                    one.amounts[: operation.accounts],
                    one.requests_per_minute,
                    one.tokens_per_minute,
                )
                for one in some
            ]
            command = Acquire(str(count), chosen, ACCOUNTS[: operation.accounts], operation.ms)
            open_.append(command)
            commands.append((now, command))
        elif open_:
            taken = open_.pop(operation.which % len(open_))
            size = len(taken.accounts)
            amounts = None if operation.amounts is None else operation.amounts[:size]
            settle = Settle(
                taken.id,
                taken.candidates[0],
                taken.accounts,
                amounts,
                operation.tokens,
                operation.outcome,
                operation.cooldown,
                30_000,
                operation.learned,
            )
            commands.append((now, settle))
    return commands
