"""Mutants of the push notifications of the A2A server: where they go, their order and retries."""

from .mutant import Mutant

__all__ = ["MUTANTS"]


def _push(topic: str, name: str, old: str, new: str, test: str = "") -> Mutant:
    file = f"tests/server/a2a/test_push_{topic}.py"
    tests = (f"{file}::{test}" if test else file,)
    return Mutant(name, "coreason_client/server/a2a/_push", old, new, tests)


MUTANTS = (
    _push(
        "addresses",
        "the metadata addresses of clouds are private",
        "if any(plain in network for network in _METADATA_V6):",
        "if False:",
    ),
    _push(
        "addresses",
        "an IPv4-mapped address is not unwrapped",
        "if address.ipv4_mapped is not None:",
        "if False:",
    ),
    _push(
        "addresses",
        "private networks are always allowed",
        "(allow_private and reach is Reach.PRIVATE)",
        "reach is Reach.PRIVATE",
    ),
    _push(
        "urls",
        "a URL may have a password",
        'if "@" in parts.netloc:',
        "if False:",
    ),
    _push(
        "urls",
        "a URL may be in clear",
        'if parts.scheme == "http" and not self.allow_http:',
        "if False:",
    ),
    _push(
        "urls",
        "older forms of addresses are names",
        "return IPv4Address(socket.inet_aton(host))",
        "return None",
    ),
    _push(
        "sender",
        "only the first address is checked",
        "for text in found:",
        "for text in found[:1]:",
        "test_a_name_with_a_forbidden_address_is_not_connected_to",
    ),
    _push(
        "sender",
        "the name is resolved a second time",
        "address, port, timeout, local_address, socket_options",
        "host, port, timeout, local_address, socket_options",
        "test_a_name_is_resolved_once_and_the_checked_address_is_used",
    ),
    _push(
        "sender",
        "a response is read to its end",
        "if received > _MAX_RESPONSE:",
        "if False:",
        "test_a_long_response_is_not_read_to_its_end",
    ),
    _push(
        "configs",
        "a line break is a part of a header",
        'r"[!-~](?:[ -~]*[!-~])?"',
        'r"[!-~](?:[ -~\\r\\n]*[!-~])?"',
    ),
    _push(
        "configs",
        "the token is shown",
        '"id": self.id, "url": self.url}',
        '"id": self.id, "url": self.url, "token": self.token}',
    ),
    _push(
        "notifications",
        "merged text has the first generation",
        "GENERATION: _generation(after),",
        "GENERATION: _generation(before),",
    ),
    _push(
        "notifications",
        "text is merged across the end of an artifact",
        ' and not before.get("lastChunk")',
        "",
    ),
    _push(
        "notifications",
        "a merged event forgets its first generation",
        "_first_generation(before)",
        'before["generation"]',
    ),
    _push(
        "progress",
        "failures are never given up",
        "status == GONE or now - since >= GIVE_UP_SECONDS",
        "status == GONE",
    ),
    _push(
        "progress",
        "a failure restarts the day",
        "since = now if self.failing_since is None else self.failing_since",
        "since = now",
    ),
    _push(
        "deliverer",
        "a redirect is a success",
        "200 <= answer.status < 300",
        "200 <= answer.status < 400",
        "test_a_notification_is_sent_again_until_it_is_accepted",
    ),
    _push(
        "deliverer",
        "a delivery that was taken over goes on",
        "            raise _Lost\n        self._held",
        "            pass\n        self._held",
        "test_what_was_taken_over_is_left_alone",
    ),
    _push(
        "deliverer",
        "a turn is missed that is added during a pause",
        "if latest is None or len(turns_of(latest)) == len(turns_of(reading.record)):",
        "if True:",
        "test_a_turn_that_is_added_while_it_pauses_is_not_missed",
    ),
    _push(
        "deliverer",
        "a delivery is not held for longer",
        "            await self._extend_if_needed()\n\n    async def _send_as",
        "\n    async def _send_as",
        "test_a_delivery_is_held_while_nothing_happens",
    ),
    _push(
        "service",
        "the deliveries of a dead process must run out on a log of its own",
        "horizon = self._clock() if self._runtime.log.shared else math.inf",
        "horizon = self._clock()",
        "test_a_process_that_starts_on_its_own_log_continues_at_once",
    ),
    _push(
        "service",
        "the next turn wakes nobody",
        "if DeliveryProgress.load(delivery.progress).idle:",
        "if False:",
        "test_a_delivery_continues_with_the_next_turn_at_once",
    ),
    _push(
        "service",
        "a message that is sent again registers twice",
        "if delivery.name == config.id and delivery.data == config.dump():",
        "if False:",
        "test_a_message_that_is_sent_again_registers_once",
    ),
    _push(
        "service",
        "a deletion leaves a request alone",
        "        self._cancel(record.task_id, name)\n        return {}",
        "        return {}",
        "test_a_deletion_ends_the_request_that_is_being_sent",
    ),
    Mutant(
        "one client takes all slots for webhooks",
        "coreason_client/server/a2a",
        "_OF_A_PRINCIPAL: Final = 32",
        "_OF_A_PRINCIPAL: Final = 256",
        ("tests/server/a2a/test_push_limits.py",),
    ),
    Mutant(
        "all webhooks together have no limit",
        "coreason_client/server/a2a",
        "async with own, self._all:",
        "async with own:",
        ("tests/server/a2a/test_push_limits.py",),
    ),
)
