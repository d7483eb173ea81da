"""The number of connections that a limit of file descriptors allows."""

import pytest

from coreason_client.server.process._listen import default_max_connections


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(None, None), (64, 8), (128, 32), (1024, 480), (65536, 32736)]
)
def test_connections_leave_descriptors_for_the_rest(
    descriptors: int | None, connections: int | None
) -> None:
    assert default_max_connections(descriptors) == connections
