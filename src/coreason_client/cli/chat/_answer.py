"""Asks an agent service, and shows its answers."""

import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from uuid import UUID, uuid4

from coreason_client import (
    CAPConnectionError,
    CAPError,
    CAPRuntimeError,
    PacketStream,
    Position,
    ServiceRequest,
)
from coreason_client.cap.answer import WITH_REWINDS, starts_over
from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    MessagePart,
    Role,
    TextPart,
    UriPart,
)
from coreason_manifest.definitions.presentation import Packet, StreamError
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext

from .._attached import Attached, FileText, file_content, type_of_name
from .._conversation import Others
from .._text import encodable
from ..exits import ExitCode, Failure, report_error
from ..output import open_output, print_dimmed
from ..prompt import LineReader, typed_row
from ._packets import PacketPresenter, text_of
from ._service import ChatService

_USER = "anonymous"
_KEY_HINT = "Give a key that the service accepts with --api-key, COREASON_API_KEY or a profile."


class ServicePartner:
    """An agent service in a conversation.

    `command` is the beginning of the command that continues the conversation later, quoted for a
    shell; None if that is not possible. `known` is True if the conversation exists already.
    `others` has what others ask there.
    """

    says = True

    def __init__(
        self,
        service: ChatService,
        session: str,
        command: str | None,
        *,
        as_json: bool,
        known: bool = False,
        others: Others | None = None,
    ) -> None:
        self._service = service
        self._session = session
        self._command = command
        self._as_json = as_json
        self._can_continue = known
        self.others = others
        self.answer = ""

    def check(self, attached: Attached) -> None:
        """Check that a file can be attached.

        Raises:
            AttachFailure: its type is unknown.
        """
        chat_message("", [attached])

    def ask(self, text: str, attached: Sequence[Attached], reader: LineReader | None) -> bool:
        """Ask, and show the answer; returns and raises as `ask`."""
        received: list[Packet] = []
        try:
            return self._ask(chat_message(text, attached), received, reader)
        finally:
            # The service keeps an incomplete answer too, with its question.
            self._can_continue = self._can_continue or bool(received)
            self.answer = text_of(received)

    def _ask(self, message: ChatMessage, received: list[Packet], reader: LineReader | None) -> bool:
        """Show the answer, and then the one to what its agent was told and did not read."""
        service, session, as_json = self._service, self._session, self._as_json
        try:
            asks, after = ask(service, message, session, received, as_json=as_json, reader=reader)
            end: object = received[-1].p
        except CAPRuntimeError as error:
            if reader is None or _next_stream(error.stream_error) is None:
                raise
            report_error(error)
            asks, end, after = False, error.stream_error, error.position
        except KeyboardInterrupt:
            if not received or reader is None or str(received[-1].stream_id) not in service.told:
                raise
            asks, (end, after) = False, _end_of(service, session, received[-1])
            if _next_stream(end) is None:
                raise
            reader.typed = ""
        while (stream_id := _next_stream(end)) is not None:
            print_dimmed("The agent did not read your message in time. It answers it now.")
            with service.client.follow_conversation(session, after) as following:
                asks = show_begun(service, stream_id, following, received, reader, as_json=as_json)
            end, after = received[-1].p, following.position
        return asks

    def start_over(self) -> None:
        """Start a new conversation, in which nobody else can be."""
        self._session, self._can_continue, self.others = str(uuid4()), False, None
        self._service.asked = None

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
    received: list[Packet],
    *,
    as_json: bool,
    reader: LineReader | None = None,
) -> tuple[bool, Position | None]:
    """Ask, and show the answer as it arrives; return if it ends with a question, and its position.

    With a proxy, check that nothing of it was lost. `received` gets the packets of the answer.

    Raises:
        CAPError, Failure: there was no answer, it is incomplete, or it differs from the log.
        KeyboardInterrupt: Ctrl-C was pressed; the agent has been asked to stop.
    """
    cuts_before, kills_before = service.cuts(), service.kills()

    def status() -> str:
        happened = interruptions(service.cuts() - cuts_before, service.kills() - kills_before)
        typed = typed_line(reader, service, _id_of(packets), sending)
        return "\n".join(filter(None, [happened, typed]))

    presenter = PacketPresenter(output := open_output(as_json=as_json, status=status))
    request = _request(message, conversation, service.asked, rewinds=output.can_rewind)
    service.asked = None
    with (
        ThreadPoolExecutor(1) as sending,
        service.client.assist(request, rewinds=output.can_rewind) as packets,
        explained(service.url),
    ):
        asks = show_answer(service, packets, partial(_stop, service, packets), presenter, received)
    if service.proxy is not None:
        cuts, kills = service.cuts() - cuts_before, service.kills() - kills_before
        delivery = compare(received, service.read_directly(request))
        presenter.report(delivery.summary(cuts, packets.reconnects, kills))
        if delivery.same_stream and not delivery.intact:
            raise Failure("the answer received differs from the one logged", ExitCode.PROTOCOL)
    return asks, packets.position


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Say what to do if there is no connection, or if the key is wrong."""
    try:
        yield
    except CAPConnectionError as error:
        if error.position is not None:
            raise
        reason = error.__cause__ or error
        # A reason such as an invalid certificate is not tried again.
        tried = f" ({error.attempts} attempts)" if error.attempts > 1 else ""
        raise Failure(f"{url} cannot be reached: {reason}{tried}", ExitCode.CONNECTION) from None
    except CAPRuntimeError as error:
        if error.status_code != HTTPStatus.UNAUTHORIZED:
            raise
        raise Failure(f"{str(error).rstrip('.')}. {_KEY_HINT}") from None


def _end_of(service: ChatService, session: str, last: Packet) -> tuple[object, Position | None]:
    """Return the end of an answer that was stopped after a packet, and its position."""
    end: object = None
    after: Position | None = Position(stream_id=last.stream_id, seq=last.seq)
    with suppress(CAPError), service.direct.follow_conversation(session, after) as rest:
        for packet in packets_of(last.stream_id, rest):
            end, after = packet.p, rest.position
    return end, after


def _next_stream(end: object) -> UUID | None:
    """Return the stream that an end names for what the agent was told and did not read."""
    details = end.details if isinstance(end, StreamError) else end
    if isinstance(details, dict):
        with suppress(ValueError):
            return UUID(str(details.get("next_stream")))
    return None


def packets_of(stream_id: UUID, packets: Iterable[Packet]) -> Iterator[Packet]:
    """Yield the packets of one answer of a conversation."""
    for packet in packets:
        if packet.stream_id == stream_id:
            yield packet
            if packet.is_last:
                return


def _stop(service: ChatService, packets: PacketStream) -> None:
    packets.close()
    service.cancel(_id_of(packets))


def show_answer(
    service: ChatService,
    packets: Iterable[Packet],
    stop: Callable[[], None],
    presenter: PacketPresenter,
    received: list[Packet],
) -> bool:
    """Show the packets of an answer; return True if it ends with a question.

    `stop` is called if the rest of it is not wanted.
    """
    if service.killer is not None:
        service.killer.begin_answer()
    try:
        with presenter:
            for packet in packets:
                service.shown.add(str(packet.stream_id))
                if starts_over(packet):
                    received.clear()
                else:
                    received.append(packet)
                presenter.show(packet)
                if service.killer is not None:
                    service.killer.received(packet)
    except (KeyboardInterrupt, BrokenPipeError):
        # The rest of the answer is not wanted, so the agent can stop.
        stop()
        raise
    service.asked = presenter.asks_permission
    return presenter.asks


def show_begun(
    service: ChatService,
    stream_id: UUID,
    packets: Iterable[Packet],
    received: list[Packet],
    reader: LineReader | None,
    *,
    as_json: bool,
) -> bool:
    """Show an answer of a conversation; Ctrl-C stops its agent. Returns as `show_answer`."""
    stop, answer = partial(service.cancel, stream_id), packets_of(stream_id, packets)
    with ThreadPoolExecutor(1) as sending:
        typed = partial(typed_line, reader, service, stream_id, sending)
        presenter = PacketPresenter(open_output(as_json=as_json, status=typed))
        return show_answer(service, answer, stop, presenter, received)


def typed_line(
    reader: LineReader | None, service: ChatService, stream_id: UUID | str | None, sending: Executor
) -> str:
    """Return the line that is typed during an answer, for the row below it.

    `sending` sends messages to the agent in another thread.
    """
    if reader is None or stream_id is None:  # nobody can be told anything yet
        return ""
    return typed_row(reader, lambda text: sending.submit(service.say, stream_id, text))


def _id_of(packets: PacketStream) -> UUID | str | None:
    return packets.stream_id or packets.response_headers.get("x-stream-id")


def _request(
    message: ChatMessage, conversation: str, asked: str | None, *, rewinds: bool
) -> ServiceRequest:
    """Return the request; with `rewinds` it allows the agent to declare shown text void.

    If the stream `asked` for a permission, it answers no other question.
    """
    return ServiceRequest(
        context=SessionContext(session_id=conversation, user_id=_USER),
        payload=AgentRequest(
            messages=[message],
            session_id=conversation,
            capabilities=WITH_REWINDS if rewinds else None,
            metadata={} if asked is None else {"answer": {"question_id": asked}},
        ),
    )


# The report of --chaos


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The result; `same_stream` is False if the second request got another stream."""

    received: int
    logged: int
    lost: int
    duplicated: int
    changed: int
    same_stream: bool

    @property
    def intact(self) -> bool:
        """True if exactly the logged packets arrived: each once, unchanged and in order."""
        return self.same_stream and not (self.lost or self.duplicated or self.changed)

    def summary(self, cuts: int, reconnects: int, kills: int = 0) -> str:
        """Return a sentence about the result, the cuts of the connection and the agent's kills."""
        resumed = _resumed(cuts, reconnects, kills)
        if not self.same_stream:
            return (
                f"{resumed}. The answer cannot be checked, because the service does not return "
                "the same stream for the same request."
            )
        damage = f"{self.lost} lost, {self.duplicated} duplicated, {self.changed} changed"
        result = "nothing lost or duplicated" if self.intact else damage
        return f"{resumed}, {result}: {self.received} packets received, {self.logged} logged."


def compare(received: Sequence[Packet], logged: Sequence[Packet]) -> DeliveryReport:
    """Compare the received packets with the log, which was read without the proxy."""
    got = Counter(packet.seq for packet in received)
    in_log = {packet.seq: packet for packet in logged}
    in_order = [packet.seq for packet in received] == sorted(packet.seq for packet in received)
    changed = sum(packet.seq in in_log and in_log[packet.seq] != packet for packet in received)
    unknown = sum(packet.seq not in in_log for packet in received)
    return DeliveryReport(
        received=len(received),
        logged=len(logged),
        lost=sum(seq not in got for seq in in_log),
        duplicated=sum(count - 1 for count in got.values()),
        changed=changed + unknown + (not in_order),
        same_stream={p.stream_id for p in received} == {p.stream_id for p in logged},
    )


def interruptions(cuts: int, kills: int) -> str:
    """Return a line about an answer that is being written, empty if nothing has happened."""
    parts = (("connection cuts", cuts), ("kills of the agent", kills))
    return ", ".join(f"{name} so far: {number}" for name, number in parts if number)


def _resumed(cuts: int, reconnects: int, kills: int) -> str:
    if kills:  # a kill ends the connection too, if there is one at that time
        both = f"{_count(cuts, 'cut')} of the connection and {_count(kills, 'kill')} of the agent"
        return f"Resumed after {both}"
    resumed = f"Resumed after {_count(reconnects, 'cut')}"
    after_end = cuts - reconnects
    if after_end > 0:  # the proxy may cut when everything has already arrived
        resumed += f" ({after_end} more came after the last packet)"
    return resumed


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# The message of the user. A text file becomes a text part, any other file a blob part, a URL a URI
# part that the agent may fetch. The attachments precede the text.


def chat_message(text: str, attached: Sequence[Attached] = ()) -> ChatMessage:
    """Return the message.

    Raises:
        AttachFailure: a file is empty, or its type is unknown.
    """
    parts = [_part(one) for one in attached]
    if text:
        # Command line bytes that are not UTF-8 cannot be encoded in JSON.
        parts.append(TextPart(content=encodable(text)))
    return ChatMessage(role=Role.USER, parts=_with_blank_lines(parts))


def _part(attached: Attached) -> MessagePart:
    if attached.content is None:
        return UriPart(uri=attached.name, mime_type=type_of_name(attached.filename))
    found = file_content(attached, attached.content)
    if isinstance(found, FileText):
        return TextPart(content=found.text)
    return BlobPart(content=b64encode(found.content).decode(), mime_type=found.media_type)


def _with_blank_lines(parts: list[MessagePart]) -> list[MessagePart]:
    """Return the parts with a blank line after each text that another text follows.

    Agents join the text parts of a message, see `ChatMessage.text`.
    """
    texts = [index for index, part in enumerate(parts) if isinstance(part, TextPart)]
    for index in texts[:-1]:
        part = parts[index]
        if isinstance(part, TextPart):
            parts[index] = TextPart(content=f"{part.content}\n\n")
    return parts
