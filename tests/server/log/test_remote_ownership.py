"""The streams that a process owns, and the end of their leases."""

from uuid import uuid4

from coreason_client.server.log.remote._owned import Ownership

from .backends import Clock


def test_ownership_ends_with_its_lease() -> None:
    clock = Clock(0.0)
    owned, stream = Ownership(clock), uuid4()
    assert not owned.owns(stream)
    owned.own(stream, 10.0)
    owned.add(stream, 1, 1, [b"a", b"b"])
    page = owned.page(stream, 1, 1, 9)
    assert page is not None
    assert list(page.entries) == [b"b"]
    clock.forward(9.9)
    assert owned.owns(stream)
    clock.forward(0.1)
    assert not owned.owns(stream)  # somebody else may have claimed it
    assert owned.page(stream, 1, 1, 9) is None


def test_a_renewal_in_time_or_late_continues_an_ownership() -> None:
    clock = Clock(0.0)
    owned, stream, other = Ownership(clock), uuid4(), uuid4()
    owned.own(stream, 10.0)
    clock.forward(15.0)
    owned.forget_old()
    assert owned.extend(stream, 25.0)
    assert owned.owns(stream)
    assert not owned.extend(other, 25.0)  # it is not written here
    assert not owned.owns(other)
    clock.forward(100.0)
    owned.forget_old()
    assert not owned.extend(stream, 200.0)  # by now it was forgotten


def test_what_is_not_owned_is_not_kept() -> None:
    owned, stream = Ownership(Clock(0.0)), uuid4()
    owned.add(stream, 1, 1, [b"a"])
    owned.own(stream, 10.0)
    assert owned.page(stream, 0, 1, 9) is None
    owned.add(stream, 1, 2, [b"b"])
    assert owned.disown(stream)
    assert not owned.disown(stream)
    owned.own(stream, 10.0)
    assert owned.page(stream, 1, 1, 9) is None
