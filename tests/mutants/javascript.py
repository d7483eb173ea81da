"""Mutants of the JavaScript client, and of the modules of the page that need no browser."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_PAGE = "coreason_client/server/page/static"


def _client(name: str, old: str, new: str, *files: str) -> Mutant:
    """Return a mutant of the client, tested by these files of `js/test`."""
    tests = tuple(f"tests/js/test_node.py::test_javascript[{file}.test.js]" for file in files)
    return Mutant(name, "js/coreason.js", old, new, tests)


def _page(name: str, old: str, new: str) -> Mutant:
    return Mutant(name, _PAGE, old, new, ("tests/browser/test_units.py",))


MUTANTS = (
    _client(
        "in JavaScript, a conversation that is silent for long is given up",
        "if (isText(this.#options.after)) this.#budget.restore();",
        "",
        "client",
    ),
    _client(
        "in JavaScript, another origin gets the credentials",
        "    .filter(([name]) => SAFE_HEADERS.includes(name.toLowerCase()));",
        "    .filter(() => true);",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, a server may redirect without end",
        "if (count > MAX_REDIRECTS) throw",
        "if (false) throw",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, an event has no limit",
        "if (block.bytes > this.#limit || line.length > this.#limit + LONGEST_PREFIX) {",
        "if (false) {",
        *("sse", "faults"),
    ),
    _client(
        "in JavaScript, an id may have a null character",
        'if (!value.includes("\\0")) block.id = value;',
        "block.id = value;",
        *("sse", "wire_cases"),
    ),
    _client(
        "in JavaScript, a byte order mark is text",
        "if (this.#atStart && BOM.every(",
        "if (false && BOM.every(",
        *("sse", "wire_cases"),
    ),
    _client(
        "in JavaScript, a line end that is cut counts twice",
        "this.#afterCR = start === chunk.length;",
        "this.#afterCR = false;",
        *("sse", "wire_cases"),
    ),
    _client(
        "in JavaScript, an answer that failed is complete after a resume",
        'if (!unary && outcome && outcome !== "complete") {',
        "if (false) {",
        "wire_cases",
    ),
    _client(
        "in JavaScript, a message that was refused counts as sent",
        "? status >= 200 && status < 300",
        "? true",
        "client",
    ),
    _client(
        "in JavaScript, a packet is delivered twice",
        "        } else if (!isEnd) {",
        "        } else if (false) {",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, a gap is accepted at once",
        "if (numbering.isNewGap()) {",
        "if (false) {",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, two runs of an agent are joined",
        "if ((packet.seq > numbering.seq || isEnd) && this.#isOtherRun(packet, last)) return;",
        "",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, another stream may continue the answer",
        "if (!known && required && required !== streamId) {",
        "if (false) {",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, an error contains the key",
        'text = text.replaceAll(form, "***");',
        "",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, a server may ask for any delay",
        "return asked > maxRetryDelay ? null : Math.max(delay, asked);",
        "return Math.max(delay, asked);",
        "wire_cases",
    ),
    _client(
        "in JavaScript, a server may drain without end",
        "this.drains <= MAX_DRAINS",
        "true",
        "wire_cases",
    ),
    _client(
        "in JavaScript, a connection without a packet refills the retries",
        '    this.#state = "reading";\n',
        '    this.#state = "reading";\n    this.#budget.refill();\n',
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, a fatal error does not end the stream",
        'if (severity === "FATAL") throw',
        "if (false) throw",
        *("client", "faults"),
    ),
    _client(
        "in JavaScript, text that was taken back stays",
        "this.#kept = this.#kept.filter(({ seq }) => seq <= to);",
        "",
        "client",
    ),
    _client(
        "in JavaScript, a packet may have unknown fields",
        'return "a field is unknown";',
        'return "";',
        "wire_cases",
    ),
    _client(
        "in JavaScript, the end of a response is the end of the answer",
        'if (this.#state === "idle" || this.complete) return;',
        'if (!failure) this.#state = "finished";\n    if (this.complete) return;',
        *("disconnects", "faults"),
    ),
    _page(
        "directions of text reach the page",
        "\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/g;",
        "\\u007f-\\u009f]/g;",
    ),
    _page(
        "a link of the page may have any scheme",
        "const LINK = /^(?:https?:\\/\\/|mailto:)[^\\s<>]+$/i;",
        "const LINK = /^\\w+:[^\\s<>]+$/i;",
    ),
    _page(
        "a quote ends a word of the command that the page shows",
        "text.replaceAll(\"'\", \"'\\\\''\")",
        "text",
    ),
    _page(
        "the JSON that the page shows may change the direction of text",
        "\\u007f-\\u009f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]/g, (char) =>",
        "\\u007f-\\u009f]/g, (char) =>",
    ),
    _page(
        "a block of the page may be as long as it wants",
        "while (rest.length > 2 * MAX_LINE) {",
        "while (false) {",
    ),
    _page(
        "code of the page ends at a blank line",
        "if (!afterBlank || this.fence || /^\\s/.test(line)) return false;",
        "if (!afterBlank || /^\\s/.test(line)) return false;",
    ),
)
