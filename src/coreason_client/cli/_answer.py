"""Asks an agent service, and shows its answers."""

import shlex
from collections.abc import Sequence
from http import HTTPStatus
from uuid import uuid4

from coreason_client import CAPConnectionError, CAPRuntimeError, PacketStream, ServiceRequest
from coreason_client.cap.rewound import WITH_REWINDS
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import Packet
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext

from ._chat_service import ChatService
from ._delivery import compare, interruptions
from ._packets import PacketPresenter
from .exits import ExitCode, Failure
from .output import open_output

__all__ = ["ServicePartner", "ask"]

_USER = "anonymous"
_KEY_HINT = "Give a key that the service accepts with --api-key or COREASON_API_KEY."


class ServicePartner:
    """An agent service in a conversation.

    `command` with `--conversation` continues the conversation later; None if that is not possible.
    """

    def __init__(
        self, service: ChatService, session: str, command: Sequence[str] | None, *, as_json: bool
    ) -> None:
        self._service = service
        self._session = session
        self._command = command
        self._as_json = as_json
        self._answered = False  # True: there is something to continue

    def ask(self, text: str) -> None:
        """Ask, and show the answer; raises as `ask`."""
        ask(self._service, text, self._session, as_json=self._as_json)
        self._answered = True

    def start_over(self) -> None:
        """Start a new conversation."""
        self._session, self._answered = str(uuid4()), False

    def continue_command(self) -> str | None:
        """Return the command that continues the conversation, None if that is not possible."""
        if self._command is None or not self._answered:
            return None
        return shlex.join([*self._command, "--conversation", self._session])


def ask(service: ChatService, message: str, conversation: str, *, as_json: bool) -> None:
    """Ask, and show the answer as it arrives; with a proxy, check that nothing of it was lost.

    Raises:
        CAPError: there was no answer, or it is incomplete.
        Failure: what was received differs from what the agent logged.
        KeyboardInterrupt: Ctrl-C was pressed; the agent has been asked to stop.
    """
    cuts_before, kills_before = service.cuts(), service.kills()

    def status() -> str:
        return interruptions(service.cuts() - cuts_before, service.kills() - kills_before)

    output = open_output(as_json=as_json, status=status)
    request = _request(message, conversation, rewinds=output.can_rewind)
    presenter = PacketPresenter(output)
    with service.client.assist(request) as packets:
        try:
            received = _show(service, packets, presenter)
        except CAPConnectionError as error:
            if error.position is not None:
                raise
            reason = error.__cause__ or error
            tried = f"{error.attempts} attempt{'' if error.attempts == 1 else 's'}"
            message = f"{service.url} cannot be reached: {reason} ({tried})"
            raise Failure(message, ExitCode.CONNECTION) from None
        except CAPRuntimeError as error:
            if error.status_code != HTTPStatus.UNAUTHORIZED:
                raise
            raise Failure(f"{str(error).rstrip('.')}. {_KEY_HINT}") from None
    if service.proxy is None:
        return
    delivery = compare(received, service.read_directly(request))
    cuts, kills = service.cuts() - cuts_before, service.kills() - kills_before
    presenter.report(delivery.summary(cuts, packets.reconnects, kills))
    if delivery.same_stream and not delivery.intact:
        raise Failure("the answer received differs from the one logged", ExitCode.PROTOCOL)


def _show(
    service: ChatService, packets: PacketStream, presenter: PacketPresenter
) -> Sequence[Packet]:
    received = list[Packet]()
    if service.killer is not None:
        service.killer.begin_answer()
    try:
        with presenter:
            for packet in packets:
                received.append(packet)
                presenter.show(packet)
                if service.killer is not None:
                    service.killer.received(packet)
    except (KeyboardInterrupt, BrokenPipeError):
        # The rest of the answer is not wanted, so the agent can stop.
        packets.close()
        service.cancel(packets.stream_id or packets.response_headers.get("x-stream-id"))
        raise
    return received


def _request(message: str, conversation: str, *, rewinds: bool) -> ServiceRequest:
    """Return the request; with `rewinds` it allows the agent to declare shown text void."""
    # Command line bytes that are not UTF-8 cannot be encoded in JSON.
    text = message.encode("utf-8", "replace").decode()
    return ServiceRequest(
        context=SessionContext(session_id=conversation, user_id=_USER),
        payload=AgentRequest(
            messages=[ChatMessage.user(text)],
            session_id=conversation,
            capabilities=WITH_REWINDS if rewinds else None,
        ),
    )
