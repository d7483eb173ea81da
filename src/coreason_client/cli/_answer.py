"""One question and its answer, from the request to the last line."""

from collections.abc import Sequence
from http import HTTPStatus

from coreason_client import CAPConnectionError, CAPRuntimeError, PacketStream, ServiceRequest
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import Packet
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext

from ._chat_service import ChatService
from ._packets import PacketPresenter
from ._verdict import compare
from .exits import ExitCode, Failure
from .output import open_output

__all__ = ["ask"]

_USER = "anonymous"
_KEY_HINT = "Give a key that the service accepts with --api-key or COREASON_API_KEY."


def ask(target: ChatService, message: str, conversation: str, *, as_json: bool) -> None:
    """Ask, show the answer as it comes and, with a proxy, check that it came through whole.

    Raises:
        CAPError: there was no answer, or not all of it.
        Failure: the answer did not come through whole.
        KeyboardInterrupt: the agent has been told to stop.
    """
    request = _request(message, conversation)
    cuts_before = target.cuts()
    output = open_output(as_json=as_json, status=lambda: _cut_so_far(target.cuts() - cuts_before))
    presenter = PacketPresenter(output)
    with target.client.assist(request) as packets:
        try:
            received = _show(target, packets, presenter)
        except CAPConnectionError as error:
            if error.position is not None:
                raise
            reason = error.__cause__ or error
            sentence = f"{target.url} cannot be reached: {reason} (tried {error.attempts} times)"
            raise Failure(sentence, ExitCode.CONNECTION) from None
        except CAPRuntimeError as error:
            if error.status_code != HTTPStatus.UNAUTHORIZED:
                raise
            raise Failure(f"{str(error).rstrip('.')}. {_KEY_HINT}") from None
    if target.proxy is None:
        return
    verdict = compare(received, target.again(request))
    presenter.report(verdict.sentence(target.cuts() - cuts_before, packets.reconnects))
    if verdict.comparable and not verdict.intact:
        raise Failure("the answer did not come through whole", ExitCode.PROTOCOL)


def _show(
    target: ChatService, packets: PacketStream, presenter: PacketPresenter
) -> Sequence[Packet]:
    received = list[Packet]()
    try:
        with presenter:
            for packet in packets:
                received.append(packet)
                presenter.show(packet)
    except (KeyboardInterrupt, BrokenPipeError):
        # Nobody reads on, so the agent need not write on.
        packets.close()
        target.cancel(packets.stream_id or packets.response_headers.get("x-stream-id"))
        raise
    return received


def _cut_so_far(cuts: int) -> str:
    return f"the connection was cut, {cuts} so far" if cuts else ""


def _request(message: str, conversation: str) -> ServiceRequest:
    # Bytes that were no UTF-8 on the command line cannot go into JSON.
    text = message.encode("utf-8", "replace").decode()
    return ServiceRequest(
        context=SessionContext(session_id=conversation, user_id=_USER),
        payload=AgentRequest(messages=[ChatMessage.user(text)], session_id=conversation),
    )
