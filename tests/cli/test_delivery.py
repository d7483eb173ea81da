"""Received packets are compared with the log, and each difference is counted."""

from uuid import UUID

import pytest

from coreason_client.cli.chat._answer import compare, interruptions
from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import DeltaPacket, StreamOpCode

NOW = utc_now()


def packets(*seqs: int, stream: int = 1, text: str = "x") -> list[DeltaPacket]:
    return [
        DeltaPacket(stream_id=UUID(int=stream), seq=seq, op=StreamOpCode.DELTA, t=NOW, p=text)
        for seq in seqs
    ]


def test_a_whole_answer_is_intact() -> None:
    delivery = compare(packets(1, 2, 3), packets(1, 2, 3))
    assert delivery.intact
    assert delivery.summary(cuts=2, reconnects=2) == (
        "Resumed after 2 cuts, nothing lost or duplicated: 3 packets received, 3 logged."
    )
    assert "Resumed after 1 cut (1 more came after the last packet)" in delivery.summary(2, 1)


@pytest.mark.parametrize(
    ("received", "says"),
    [
        (packets(1, 3), "1 lost, 0 duplicated, 0 changed"),
        (packets(1, 2, 2, 3), "0 lost, 1 duplicated, 0 changed"),
        (packets(1, 2) + packets(3, text="y"), "0 lost, 0 duplicated, 1 changed"),
        (packets(1, 2, 3, 4), "0 lost, 0 duplicated, 1 changed"),
        (packets(1, 3, 2), "0 lost, 0 duplicated, 1 changed"),
    ],
)
def test_damage_is_counted(received: list[DeltaPacket], says: str) -> None:
    delivery = compare(received, packets(1, 2, 3))
    assert not delivery.intact
    assert says in delivery.summary(cuts=1, reconnects=1)


def test_another_stream_cannot_be_compared() -> None:
    delivery = compare(packets(1, 2), packets(1, 2, stream=2))
    assert not delivery.intact
    assert "cannot be checked" in delivery.summary(cuts=1, reconnects=1)


@pytest.mark.parametrize(
    ("cuts", "kills", "shown"),
    [
        (0, 0, ""),
        (2, 0, "connection cuts so far: 2"),
        (0, 1, "kills of the agent so far: 1"),
        (2, 1, "connection cuts so far: 2, kills of the agent so far: 1"),
    ],
)
def test_interruptions_are_counted_while_the_answer_is_written(
    cuts: int, kills: int, shown: str
) -> None:
    assert interruptions(cuts, kills) == shown


def test_kills_are_reported_with_the_cuts() -> None:
    delivery = compare(packets(1, 2), packets(1, 2))
    assert delivery.summary(cuts=1, reconnects=3, kills=2) == (
        "Resumed after 1 cut of the connection and 2 kills of the agent, nothing lost or "
        "duplicated: 2 packets received, 2 logged."
    )
