"""Mutants of the checks, the media and the profiles of the AI client, and of the agents."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_LLM = "coreason_client/llm"
_MESSAGES = f"{_LLM}/_check_messages.py"
_MESSAGE_TESTS = ("tests/llm/test_check_messages.py",)
_PARTS = f"{_LLM}/_check_messages.py"
_PART_TESTS = ("tests/llm/test_check_parts.py",)
_TOOLS = f"{_LLM}/_check_call.py"
_TOOL_TESTS = ("tests/llm/test_check_tools.py",)
_FORMAT = f"{_LLM}/_response_format.py"
_FORMAT_TESTS = ("tests/llm/test_check_format.py",)
_MEDIA = f"{_LLM}/_answer.py"
_MEDIA_TESTS = ("tests/llm/test_media.py",)
_PROFILES = f"{_LLM}/providers/profiles.py"
_PROFILE_TESTS = ("tests/llm/providers/test_profiles.py",)
_PROMPT = "coreason_client/agents/_prompt.py"
_PROMPT_TESTS = ("tests/agents/test_prompt.py",)
_PAGES = "coreason_client/agents/_documentation.py"
_PAGES_TESTS = ("tests/agents/test_pages.py",)

_BATCH = f"{_LLM}/_batch.py"
_BATCHES = f"{_LLM}/providers/batches.py"
_BATCH_TESTS = ("tests/llm/test_batch.py",)
_UPLOAD_TESTS = ("tests/llm/test_upload.py",)

MUTANTS = (
    Mutant(
        "a submit that may have arrived is repeated",
        _BATCH,
        "return replace(outcome, retryable=False)",
        "return outcome",
        _BATCH_TESTS,
    ),
    Mutant(
        "results that were delivered are delivered again after a break",
        _BATCH,
        "if self._line <= self._delivered:",
        "if False:",
        _BATCH_TESTS,
    ),
    Mutant(
        "the last line of results is lost if it has no end",
        _BATCH,
        "yield from self._results(self._lines.flush())",
        "self._lines.flush()",
        _BATCH_TESTS,
    ),
    Mutant(
        "two requests of a batch may have the same id",
        _BATCH,
        "if id_ in found:",
        "if not id_:",
        _BATCH_TESTS,
    ),
    Mutant(
        "the id of a batch may have any characters",
        _BATCHES,
        "or not _ID.fullmatch(id_)",
        "or not id_",
        _BATCH_TESTS,
    ),
    Mutant(
        "a batch costs as much as single calls",
        f"{_LLM}/_cost.py",
        "_BATCH_SHARE = 0.5",
        "_BATCH_SHARE = 1.0",
        _BATCH_TESTS,
    ),
    Mutant(
        "a file is sent to any host",
        f"{_LLM}/_files.py",
        "if origin(url) == origin(plan.url):",
        "if origin(url):",
        _UPLOAD_TESTS,
    ),
    Mutant(
        "a message with a stored file has no beta header",
        f"{_LLM}/providers/anthropic.py",
        "if _FILE_ID not in content:",
        "if True:",
        _UPLOAD_TESTS,
    ),
    Mutant(
        "an invalid argument has no fields",
        f"{_LLM}/_argument_errors.py",
        "return LLMRequestError(str(error), argument_error=error)",
        "return LLMRequestError(str(error))",
        ("tests/llm/test_argument_errors.py",),
    ),
    Mutant(
        "keys are listed in the order of a set",
        f"{_LLM}/_argument_errors.py",
        "sorted(map(shown_value, keys))",
        "map(shown_value, keys)",
        ("tests/llm/test_argument_errors.py",),
    ),
    Mutant(
        "the name of a schema may have any length",
        _FORMAT,
        '_NOT_IN_NAME.sub("_", name)[:64]',
        '_NOT_IN_NAME.sub("_", name)',
        _FORMAT_TESTS,
    ),
    Mutant(
        "a schema without `strict` is strict",
        _FORMAT,
        "return Schema(name, schema, bool(strict))",
        "return Schema(name, schema, strict is not False)",
        _FORMAT_TESTS,
    ),
    Mutant(
        "the reason why a model has no schema has several lines",
        _FORMAT,
        'reason = str(error).partition("\\n")[0]',
        "reason = str(error)",
        _FORMAT_TESTS,
    ),
    Mutant(
        "half of a surrogate pair is accepted in a common message",
        _MESSAGES,
        "return dict(message) if content.isascii() or is_encodable(content) else None",
        "return dict(message)",
        _MESSAGE_TESTS,
    ),
    Mutant(
        "the keys of a response are accepted in any message",
        _MESSAGES,
        'ignored = RESPONSE_KEYS if role == "assistant" else frozenset[str]()',
        "ignored = RESPONSE_KEYS",
        _MESSAGE_TESTS,
    ),
    Mutant(
        "a tool result may come before its call",
        _MESSAGES,
        """\
        if "tool_calls" in message:
            known.update(call["id"] for call in message["tool_calls"])
        if""",
        """\
        known.update(c["id"] for m in messages for c in m.get("tool_calls", ()))
        if""",
        _MESSAGE_TESTS,
    ),
    Mutant(
        "the messages are those of the caller",
        _MESSAGES,
        "return dict(message) if content.isascii()",
        "return message if content.isascii()",
        _MESSAGE_TESTS,
    ),
    Mutant(
        "the URL of an image may contain spaces",
        _PARTS,
        r"https?://[^\s]+",
        "https?://.+",
        _PART_TESTS,
    ),
    Mutant(
        "arguments of a tool call may be any JSON",
        _MESSAGES,
        "isinstance(json.loads(text, strict=False), dict)",
        "json.loads(text, strict=False) is not None",
        _MESSAGE_TESTS,
    ),
    Mutant(
        "two tools may have the same name",
        _TOOLS,
        "        if name in known:\n",
        "        if False:\n",
        _TOOL_TESTS,
    ),
    Mutant(
        "the name of a function has at most 63 characters",
        _TOOLS,
        "[a-zA-Z0-9_-]{1,64}",
        "[a-zA-Z0-9_-]{1,63}",
        _TOOL_TESTS,
    ),
    Mutant(
        "a choice is sent without tools",
        _TOOLS,
        "return choice if tools else None",
        "return choice",
        _TOOL_TESTS,
    ),
    Mutant(
        "the choice may name a function that is not in tools",
        _TOOLS,
        'if all(tool.get("function", {}).get("name") != name for tool in tools):',
        'if tools and all(tool["function"]["name"] != name for tool in tools):',
        _TOOL_TESTS,
    ),
    Mutant(
        "the error of a stream has no message",
        f"{_LLM}/_answer.py",
        "super().__init__(fault.message)",
        "super().__init__()",
        ("tests/llm/test_fault.py",),
    ),
    Mutant(
        "the case of a MIME type matters",
        _MEDIA,
        'mime_type.partition("/")[0].lower()',
        'mime_type.partition("/")[0]',
        _MEDIA_TESTS,
    ),
    Mutant(
        "padded pieces of audio are only put next to each other",
        _MEDIA,
        'if not any("=" in piece for piece in pieces[:-1]):',
        "if True:",
        _MEDIA_TESTS,
    ),
    Mutant(
        "the last id of audio counts",
        _MEDIA,
        'for piece in pieces)), ""):',
        'for piece in reversed(pieces))), ""):',
        _MEDIA_TESTS,
    ),
    Mutant(
        "a compatible provider needs no key by default",
        f"{_LLM}/_profile.py",
        "needs_key: bool = True",
        "needs_key: bool = False",
        ("tests/llm/test_profile.py",),
    ),
    Mutant(
        "schemas are not used by default",
        f"{_LLM}/_profile.py",
        "json_schemas: bool = True",
        "json_schemas: bool = False",
        ("tests/llm/test_profile.py",),
    ),
    Mutant(
        "the path of a provider is not that of its address",
        _PROFILES,
        'path="/inference/v1"',
        'path="/v1"',
        _PROFILE_TESTS,
    ),
    Mutant(
        "the key of a provider is read from a wrong variable",
        _PROFILES,
        'key_variable="TOGETHER_API_KEY"',
        'key_variable="TOGETHERAI_API_KEY"',
        _PROFILE_TESTS,
    ),
    Mutant(
        "ids of any form are sent to Mistral",
        _PROFILES,
        "        short_ids=True,\n",
        "",
        _PROFILE_TESTS,
    ),
    Mutant(
        "an adapter without headers sends some",
        f"{_LLM}/_adapter.py",
        "return {}",
        'return {"accept": "*/*"}',
        ("tests/llm/test_adapter.py",),
    ),
    Mutant(
        "a format need not read errors",
        f"{_LLM}/_adapter.py",
        "    @abstractmethod\n    def fault(",
        "    def fault(",
        ("tests/llm/test_adapter.py",),
    ),
    Mutant(
        "pages have the order of the file system",
        _PAGES,
        "sorted(entries, key=lambda entry: entry.name)",
        "sorted(entries, key=lambda entry: entry.name, reverse=True)",
        _PAGES_TESTS,
    ),
    Mutant(
        "the README is a page twice",
        _PAGES,
        'not in {"README.md", *_FOR_THE_SITE}',
        "not in {*_FOR_THE_SITE}",
        _PAGES_TESTS,
    ),
    Mutant(
        "a turn that has exactly the maximum length is left out",
        _PROMPT,
        "if length > max_chars:",
        "if length >= max_chars:",
        _PROMPT_TESTS,
    ),
    Mutant(
        "a long question without an answer hides the turns before it",
        _PROMPT,
        "            if turn.complete:\n                break\n            continue",
        "            break",
        _PROMPT_TESTS,
    ),
    Mutant(
        "a joined question has the name of the second user",
        _PROMPT,
        '        joined.pop("name", None)',
        "        pass",
        _PROMPT_TESTS,
    ),
    Mutant(
        "all system prompts of the history add up",
        _PROMPT,
        "system_prompts(history)[-1:]",
        "system_prompts(history)",
        _PROMPT_TESTS,
    ),
    Mutant(
        "the wrong system prompt of an agent is reported under another name",
        "coreason_client/agents/llm.py",
        'check_text("system", system)',
        'check_text("messages[0].content", system)',
        ("tests/agents/test_llm.py::test_an_argument_that_cannot_work_is_refused_at_once",),
    ),
)
