"""Asks an agent service, and shows its answers."""

import shlex
from collections.abc import Sequence
from http import HTTPStatus
from uuid import uuid4

from coreason_client import CAPConnectionError, CAPRuntimeError, PacketStream, ServiceRequest
from coreason_client.cap.rewound import WITH_REWINDS, starts_over
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import Packet
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext

from ._attached import Attached
from ._chat_message import chat_message
from ._chat_service import ChatService
from ._delivery import compare, interruptions
from ._packets import PacketPresenter, text_of
from .exits import ExitCode, Failure
from .output import open_output

__all__ = ["ServicePartner", "ask"]

_USER = "anonymous"
_KEY_HINT = "Give a key that the service accepts with --api-key, COREASON_API_KEY or a profile."


class ServicePartner:
    """An agent service in a conversation.

    `command` is the beginning of the command that continues the conversation later, quoted for a
    shell; None if that is not possible. `known` is True if the conversation exists already.
    """

    def __init__(
        self,
        service: ChatService,
        session: str,
        command: str | None,
        *,
        as_json: bool,
        known: bool = False,
    ) -> None:
        self._service = service
        self._session = session
        self._command = command
        self._as_json = as_json
        self._can_continue = known
        self.answer = ""

    def check(self, attached: Attached) -> None:
        """Check that a file can be attached.

        Raises:
            AttachFailure: its type is unknown.
        """
        chat_message("", [attached])

    def ask(self, text: str, attached: Sequence[Attached] = ()) -> None:
        """Ask, and show the answer; raises as `ask`."""
        received: list[Packet] = []
        message = chat_message(text, attached)
        try:
            ask(self._service, message, self._session, as_json=self._as_json, received=received)
            self._can_continue = True
        except KeyboardInterrupt:
            # The service keeps a stopped answer, with its question.
            self._can_continue = self._can_continue or bool(received)
            raise
        finally:
            self.answer = text_of(received)

    def start_over(self) -> None:
        """Start a new conversation."""
        self._session, self._can_continue = str(uuid4()), False

    def conversation_id(self) -> str:
        """Return the ID of the conversation."""
        return self._session

    def continue_command(self) -> str | None:
        """Return the command that continues the conversation, None if that is not possible."""
        if self._command is None or not self._can_continue:
            return None
        return f"{self._command} --conversation {shlex.quote(self._session)}"


def ask(
    service: ChatService,
    message: ChatMessage,
    conversation: str,
    *,
    as_json: bool,
    received: list[Packet] | None = None,
) -> None:
    """Ask, and show the answer as it arrives; with a proxy, check that nothing of it was lost.

    `received` gets the packets of the answer.

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
    received = [] if received is None else received
    with service.client.assist(request, rewinds=output.can_rewind) as packets:
        try:
            _show(service, packets, presenter, received)
        except CAPConnectionError as error:
            if error.position is not None:
                raise
            reason = error.__cause__ or error
            # A reason such as an invalid certificate is not tried again.
            tried = f" ({error.attempts} attempts)" if error.attempts > 1 else ""
            sentence = f"{service.url} cannot be reached: {reason}{tried}"
            raise Failure(sentence, ExitCode.CONNECTION) from None
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
    service: ChatService,
    packets: PacketStream,
    presenter: PacketPresenter,
    received: list[Packet],
) -> None:
    if service.killer is not None:
        service.killer.begin_answer()
    try:
        with presenter:
            for packet in packets:
                if starts_over(packet):
                    received.clear()
                else:
                    received.append(packet)
                presenter.show(packet)
                if service.killer is not None:
                    service.killer.received(packet)
    except (KeyboardInterrupt, BrokenPipeError):
        # The rest of the answer is not wanted, so the agent can stop.
        packets.close()
        service.cancel(packets.stream_id or packets.response_headers.get("x-stream-id"))
        raise


def _request(message: ChatMessage, conversation: str, *, rewinds: bool) -> ServiceRequest:
    """Return the request; with `rewinds` it allows the agent to declare shown text void."""
    return ServiceRequest(
        context=SessionContext(session_id=conversation, user_id=_USER),
        payload=AgentRequest(
            messages=[message],
            session_id=conversation,
            capabilities=WITH_REWINDS if rewinds else None,
        ),
    )
