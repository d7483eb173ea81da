"""The kills of the agent are the same for each seed, and never two without progress."""

from datetime import datetime, timedelta

from coreason_client.cli.chat._agent_process import Kills

START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


def run(kills: Kills, packets: int = 500) -> list[int]:
    """Return the packets of one answer after which the agent is killed."""
    kills.begin_answer()
    points = []
    for seq in range(1, packets + 1):
        written_at = START + timedelta(seconds=kills.count * 1000 + seq)
        if kills.is_due(seq, written_at):
            points.append(seq)
            kills.record(written_at)
    return points


def test_a_seed_is_a_sequence_of_kills() -> None:
    first, again, other = (Kills(seed) for seed in (1, 1, 2))
    answers = [run(first) for _ in range(3)]
    assert answers == [run(again) for _ in range(3)]
    assert answers != [run(other) for _ in range(3)]


def test_every_answer_of_some_length_is_interrupted_at_most_three_times() -> None:
    for seed in range(50):
        points = run(Kills(seed))
        assert len(points) == 3
        assert 2 <= points[0] <= 12
        assert [2, 4, 8] <= points <= [12, 36, 84]
        assert run(Kills(seed), 1) == []


def test_the_agent_is_not_killed_again_before_it_has_written_something_new() -> None:
    kills = Kills(1)
    kills.begin_answer()
    assert kills.is_due(100, START)
    kills.record(START)
    assert kills.count == 1
    assert not kills.is_due(200, START)
    assert kills.is_due(200, START + timedelta(seconds=1))
