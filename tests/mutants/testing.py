"""Mutants of the testing kit."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_TESTING = "coreason_client/testing"
_T = "tests/testing"


def _kit(name: str, old: str, new: str, test: str) -> Mutant:
    """Return a mutant of any file of the kit."""
    return Mutant(name, _TESTING, old, new, (f"{_T}/{test}",))


MUTANTS = (
    _kit(
        "a recording keeps secrets that are written in hexadecimal",
        "    yield data.hex()\n",
        "",
        "test_recording_secrets.py",
    ),
    _kit(
        "a recording keeps the values of secret fields in lists",
        "            yield from _in_value(item, named=named)\n",
        "            yield from _in_value(item, named=False)\n",
        "test_recording_secrets.py",
    ),
    _kit(
        "a recording keeps cookies",
        '        if name not in ("cookie", "set-cookie")\n',
        "        if True\n",
        "test_recording_secrets.py",
    ),
    _kit(
        "a recording keeps the secrets of other exchanges",
        "        found |= request_secrets(exchange)\n",
        "        found = request_secrets(exchange)\n",
        "test_recording_secrets.py",
    ),
    _kit(
        "a recording keeps the secrets of the environment",
        "known = self._secrets | environment_secrets(os.environ)",
        "known = self._secrets",
        "test_record.py",
    ),
    _kit(
        "a recording of a block that fails is written",
        "        if error is None:\n            self._write()\n",
        "        self._write()\n",
        "test_record.py",
    ),
    _kit(
        "two ids are never equal in a replay",
        "    for pattern in (_UUID, _TIME):\n",
        "    for pattern in (_TIME,):\n",
        "test_matching.py",
    ),
    _kit(
        "a request that is exactly the same is not preferred",
        "        if not [*differences(exchanges[index], request, ignored, exact=True)]:\n",
        "        if False:\n",
        "test_matching.py",
    ),
    _kit(
        "a removed secret matches nothing",
        "return MASK in recorded and _fits(recorded.split(MASK), got)",
        "return False",
        "test_matching.py",
    ),
    _kit(
        "a removed secret matches everything",
        "return len(got) - at >= len(last) and got.endswith(last)",
        "return True",
        "test_matching.py",
    ),
    _kit(
        "an answer of a replay is sent twice",
        "        self._left.discard(match.index)\n",
        "",
        "test_replay.py",
    ),
    _kit(
        "a replay does not miss requests",
        "if not self._require_all or not self._left:",
        "if True:",
        "test_replay.py",
    ),
    _kit(
        "a request that was not recorded is no failure of the test",
        "            self._problems.append(message)\n            await _refuse(",
        "            await _refuse(",
        "test_replay.py",
    ),
    _kit(
        "a lost packet is not noticed",
        "    yield from _lost(numbers)\n",
        "",
        "test_exactly_once.py",
    ),
    _kit(
        "a doubled packet is not noticed",
        "    yield from _doubled(numbers)\n",
        "",
        "test_exactly_once.py",
    ),
    _kit(
        "packets in another order are not noticed",
        "    yield from _reordered(numbers)\n",
        "",
        "test_exactly_once.py",
    ),
    _kit(
        "a stream without an end is not noticed",
        "    yield from _end_problems(packets, ended=ended)\n",
        "",
        "test_exactly_once.py",
    ),
    Mutant(
        "text that was taken back counts",
        "coreason_manifest/definitions/rewind.py",
        "            valid = [kept for kept in valid if kept.seq <= to_seq]\n",
        "            pass\n",
        (f"{_T}/test_exactly_once.py", "tests/definitions/test_last_packet.py"),
    ),
    _kit(
        "names are looked up without a network",
        '    "socket.getaddrinfo": _check_name,\n',
        "",
        "test_no_network.py",
    ),
    _kit(
        "datagrams leave the machine",
        '    "socket.sendto": _check_datagram,\n',
        "",
        "test_no_network.py",
    ),
    _kit(
        "an address of IPv4 in IPv6 is not loopback",
        "for ip in (address, mapped) if ip is not None",
        "for ip in (address,) if ip is not None",
        "test_no_network.py",
    ),
    _kit(
        "the end of one block ends all of them",
        "            _guards -= 1\n",
        "            _guards = 0\n",
        "test_no_network.py",
    ),
    _kit(
        "every connection of a chaos proxy fails",
        "fails = self._endings and number % _WHOLE_EVERY != 0",
        "fails = bool(self._endings)",
        "test_chaos_plan.py",
    ),
    _kit(
        "the plan of a connection depends on its seed alone",
        'random.Random(f"{self.seed}:{number}")',
        'random.Random(f"{self.seed}")',
        "test_chaos_plan.py",
    ),
    _kit(
        "a wait of a virtual clock is not recorded",
        "            self._waits.append(seconds)\n",
        "            pass\n",
        "test_virtual_clock.py",
    ),
)
