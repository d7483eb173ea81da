"""Mutants of what the server does for browsers: tickets, reading by id, cuts, the page."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server"
_TICKETS = f"{_T}/http/test_tickets.py"
_REQUESTS = f"{_T}/test_ticket_requests.py"
_DECISION = f"{_T}/http/test_decision.py"
_CUTS = f"{_T}/http/test_cuts.py"
_PAGE = f"{_T}/page/test_page_routes.py"


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/{file}", old, new, tests)


MUTANTS = (
    _mutant(
        "http/_auth.py",
        "a ticket with any signature is accepted",
        "subject = _subject(match[3]) if match and known else None",
        "subject = _subject(match[3]) if match else None",
        _TICKETS,
    ),
    _mutant(
        "http/_auth.py",
        "only the last secret of tickets counts",
        "            known |= hmac",
        "            known = hmac",
        _TICKETS,
    ),
    _mutant(
        "http/_auth.py",
        "a ticket never expires",
        "        if left <= -_CLOCK_DIFFERENCE:\n",
        "        if False:\n",
        _TICKETS,
    ),
    _mutant(
        "http/_auth.py",
        "a ticket may be valid for years",
        "        if left > MAX_SECONDS + _CLOCK_DIFFERENCE:\n",
        "        if False:\n",
        _TICKETS,
    ),
    _mutant(
        "http/_auth.py",
        "a subject has several spellings",
        "if _base64(data) == text and _is_subject(subject)",
        "if _is_subject(subject)",
        _TICKETS,
    ),
    _mutant(
        "_names.py",
        "the subject of a ticket is the owner of a key",
        'return f"{_encoded(agent_id)}/tickets/{_encoded(subject)}"',
        'return f"{_encoded(agent_id)}/{_encoded(subject)}"',
        _REQUESTS,
    ),
    _mutant(
        "http/_gate.py",
        "a server with tickets accepts requests without one",
        "            if self._keys is None:\n                raise",
        "            if False:\n                raise",
        _REQUESTS,
    ),
    _mutant(
        "app.py",
        "users with a ticket may leave the metrics public",
        "        if metrics and tickets and not (keys",
        "        if False and not (keys",
        _REQUESTS,
    ),
    _mutant(
        "http/_decision.py",
        "a position in another stream is read",
        "    if cursor.stream_id != stream_id:\n",
        "    if False:\n",
        _DECISION,
    ),
    _mutant(
        "http/_decision.py",
        "a reader by id has no limit of readers",
        "    if request.wait is None:\n        return _first(request, server)\n    found",
        "    if request.wait is None:\n        return Need.TOKEN\n    found",
        _DECISION,
    ),
    _mutant(
        "http/_cuts.py",
        "a cut without a seed leaves the plan of an earlier one",
        "        self._plans.pop(stream_id, None)\n        if seed",
        "        if seed",
        _CUTS,
    ),
    _mutant(
        "http/_cuts.py",
        "the plans of cuts grow without end",
        "            if len(self._plans) >= _MAX_PLANS:\n",
        "            if False:\n",
        _CUTS,
    ),
    _mutant(
        "http/_cuts.py",
        "a stream without X-Stream-ID cannot be cut",
        "        if self._connection is None and len(self._head) < _SEARCHED:\n",
        "        if False:\n",
        "tests/inspector/test_cuttable.py",
    ),
    _mutant(
        "http/_cuts.py",
        "comments count as packets",
        "            elif self._has_data:\n",
        "            else:\n",
        f"{_T}/http/test_event_count.py",
    ),
    _mutant(
        "cap/_routes.py",
        "anybody may cut a stream",
        "        await owned(await self._runtime(), principal, stream_id)\n",
        "        await self._runtime()\n",
        f"{_T}/http/test_cut_connections.py",
    ),
    _mutant(
        "page/_routes.py",
        "the page has no content security policy",
        "        response.headers.update(PAGE_HEADERS)\n",
        "",
        _PAGE,
    ),
    _mutant(
        "page/_routes.py",
        "a file of the page is sent again though the browser has it",
        'if is_known(file.etag, request.headers.get("if-none-match")):',
        "if False:",
        _PAGE,
    ),
)
