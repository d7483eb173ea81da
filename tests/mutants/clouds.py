"""Mutants of Bedrock, Vertex, and keys from callables."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_LLM = "coreason_client/llm"
_STREAM_TESTS = ("tests/llm/test_eventstream.py",)
_SIGNATURE_TESTS = ("tests/llm/test_sigv4.py",)
_FETCH_TESTS = ("tests/llm/test_key_fetch.py",)
_AUTH_TESTS = ("tests/llm/test_auth.py",)
_WIRE_TESTS = ("tests/llm/test_wire.py",)

_LIBRARY_TESTS = ("tests/testing/test_official_libraries.py",)

MUTANTS = (
    Mutant(
        "Claude at Vertex is sent to Gemini's path",
        f"{_LLM}/_route.py",
        'if profile.wire == "vertex" and model.startswith(CLAUDE_ON_VERTEX):',
        "if False:",
        _LIBRARY_TESTS,
    ),
    Mutant(
        "the model of Claude at Vertex is in the body too",
        f"{_LLM}/providers/anthropic.py",
        'del body["model"]',
        "pass",
        _LIBRARY_TESTS,
    ),
    Mutant(
        "an embedding model behind an unknown host has no price",
        f"{_LLM}/_cost.py",
        "if provider is None:  # the table finds only models that answer by their names",
        "if False:",
        ("tests/llm/test_cost.py",),
    ),
    Mutant(
        "the lengths of a frame are used without their checksum",
        f"{_LLM}/_eventstream.py",
        "if checksum != crc32(buffer[:8]):",
        "if False:",
        _STREAM_TESTS,
    ),
    Mutant(
        "a damaged frame is delivered",
        f"{_LLM}/_eventstream.py",
        "!= crc32(memoryview(frame)[:end])",
        "!= crc32(memoryview(frame)[:end]) and False",
        _STREAM_TESTS,
    ),
    Mutant(
        "decoding goes on after an error",
        f"{_LLM}/_eventstream.py",
        "self._error = str(error)",
        "pass",
        _STREAM_TESTS,
    ),
    Mutant(
        "the path of a signature is encoded once",
        f"{_LLM}/_sigv4.py",
        "kept.append(quote(segment, safe=_UNRESERVED))",
        "kept.append(segment)",
        _SIGNATURE_TESTS,
    ),
    Mutant(
        "the query of a signature is not sorted",
        f"{_LLM}/_sigv4.py",
        "in sorted(_encoded(pairs))",
        "in _encoded(pairs)",
        _SIGNATURE_TESTS,
    ),
    Mutant(
        "the region of the credentials precedes that of the host",
        f"{_LLM}/credentials.py",
        "region = match[1] if match else key.region",
        "region = key.region or (match[1] if match else None)",
        _AUTH_TESTS,
    ),
    Mutant(
        "a signature replaces a header of the caller",
        f"{_LLM}/credentials.py",
        'if any(name.lower() == "authorization" for name in headers):',
        "if False:",
        _AUTH_TESTS,
    ),
    Mutant(
        "a rejected key is fetched again and again",
        f"{_LLM}/_plan.py",
        "if not rejected or self._rejected is not None or self.route.key is None:",
        "if not rejected or self.route.key is None:",
        _FETCH_TESTS,
    ),
    Mutant(
        "a callable may take longer than the deadline",
        f"{_LLM}/_plan.py",
        "async with timeout(self._seconds):",
        "async with timeout(None):",
        _FETCH_TESTS,
    ),
    Mutant(
        "a rejected token is shown",
        f"{_LLM}/_plan.py",
        "[*self.route.secrets(), *key_secrets(self._rejected)]",
        "[*self.route.secrets()]",
        _FETCH_TESTS,
    ),
    Mutant(
        "tokens of the cache are not part of the prompt at Bedrock",
        f"{_LLM}/providers/bedrock.py",
        "fresh + cached + written",
        "fresh",
        _WIRE_TESTS,
    ),
    Mutant(
        "an answer of Bedrock is not complete before its connection ends",
        f"{_LLM}/providers/bedrock.py",
        "self.done = self.end is not None",
        "pass",
        ("tests/llm/providers/test_bedrock.py",),
    ),
    Mutant(
        "reasoning is sent to Claude after the text that it led to",
        f"{_LLM}/providers/_claude.py",
        "blocks = [*reasoning, *blocks]",
        "blocks = [*blocks, *reasoning]",
        _WIRE_TESTS,
    ),
    Mutant(
        "the error type of AWS is ignored",
        f"{_LLM}/_classify.py",
        "(*fault.codes, *_header_codes(head))",
        "fault.codes",
        ("tests/llm/test_classify.py",),
    ),
    Mutant(
        "AWS credentials precede a key of Bedrock",
        f"{_LLM}/settings.py",
        'if access_key and secret_key and "bedrock" not in found:',
        "if access_key and secret_key:",
        ("tests/llm/test_cloud_settings.py",),
    ),
)
