"""Mutants of the arguments, embeddings and lists of models of the AI client."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_LLM = "coreason_client/llm"
_FIT = f"{_LLM}/_plan.py"
_FIT_TESTS = ("tests/llm/test_fit_call.py",)
_PARTS = f"{_LLM}/_check_messages.py"
_PART_TESTS = ("tests/llm/test_check_parts.py",)
_CACHE = f"{_LLM}/_call.py"
_CACHE_TESTS = ("tests/llm/test_prompt_cache.py",)
_EMBED = f"{_LLM}/_embed.py"
_EMBED_TESTS = ("tests/llm/test_embed.py", "tests/llm/providers/test_embeddings.py")
_FORMATS = f"{_LLM}/providers/embeddings.py"
_FORMAT_TESTS = ("tests/llm/providers/test_embeddings.py",)
_LISTS = f"{_LLM}/providers/model_lists.py"
_LIST_TESTS = ("tests/llm/providers/test_model_lists.py",)
_PACE = f"{_LLM}/_pacing.py"
_PACE_TESTS = ("tests/llm/test_pacing.py",)

_ARGUMENTS = f"{_LLM}/providers/_arguments.py"
_ARGUMENT_TESTS = ("tests/llm/test_wire.py::test_an_answer",)
_FORMAT = f"{_LLM}/_response_format.py"
_TYPE_TESTS = ("tests/llm/test_check_format.py",)
_FILES = f"{_LLM}/_attachments.py"

MUTANTS = (
    Mutant(
        "an argument that a provider lacks is sent",
        _FIT,
        "rule = None if name in profile.lacks else adapter.arguments.get(name)",
        "rule = adapter.arguments.get(name)",
        _ARGUMENT_TESTS,
    ),
    Mutant(
        "an argument takes precedence over extra",
        _FIT,
        "extra=with_extra(fields, call.extra)",
        "extra=with_extra(dict(call.extra), fields)",
        _ARGUMENT_TESTS,
    ),
    Mutant(
        "Claude has no room for its answer beside the reasoning",
        _ARGUMENTS,
        'return max(wanted, min(wanted + int(thinking["budget_tokens"]), most))',
        "return wanted",
        _ARGUMENT_TESTS,
    ),
    Mutant(
        "a model that reasons gets top_p",
        _ARGUMENTS,
        """return {} if reasons(call.model, effort) else {"top_p": top_p}""",
        """return {"top_p": top_p}""",
        _ARGUMENT_TESTS,
    ),
    Mutant(
        "no value is wrapped in an object",
        _FORMAT,
        """wrapped = schema.get("type") != "object\"""",
        "wrapped = False",
        _TYPE_TESTS,
    ),
    Mutant(
        "a value that grows keeps its object",
        f"{_LLM}/_json.py",
        "if self._wrapped:",
        "if False:",
        _TYPE_TESTS,
    ),
    Mutant(
        "the name of a file is trusted more than its bytes",
        _FILES,
        """kind = _media_type(data) or mime_type_of(name or "")""",
        """kind = mime_type_of(name or "") or _media_type(data)""",
        _PART_TESTS,
    ),
    Mutant(
        "a file of any size is read",
        _FILES,
        "if len(data) > MAX_FILE_BYTES:",
        "if False:",
        _PART_TESTS,
    ),
    Mutant(
        "a 429 holds nobody back",
        _PACE,
        "self._closed = max(self._closed, now + delay)",
        "pass",
        _PACE_TESTS,
    ),
    Mutant(
        "any number of requests is sent before the first answer",
        _PACE,
        "                and self._window.running < self._window.size\n",
        "",
        _PACE_TESTS,
    ),
    Mutant(
        "more requests at a time are never sent at once, although they were admitted",
        _PACE,
        "window.size = 2 * running",
        "pass",
        _PACE_TESTS,
    ),
    Mutant(
        "after a 429 as many requests are sent at once as before",
        _PACE,
        "            self._window.size = _BURST\n",
        "",
        _PACE_TESTS,
    ),
    Mutant(
        "the end of a request is not counted",
        _PACE,
        "            window.running = running - 1 if running else 0\n",
        "",
        _PACE_TESTS,
    ),
    Mutant(
        "waiting calls are sent at once when the delay is over",
        _PACE,
        "if self._estimate.paces or self._next - first > _FEW:",
        "if False:",
        _PACE_TESTS,
    ),
    Mutant(
        "the first 429 shows the limit, also if others had used it up",
        _PACE,
        "elif admitted <= _BURST <= sent:",
        "elif False:",
        _PACE_TESTS,
    ),
    Mutant(
        "the turn of a cancelled call is lost",
        _PACE,
        "heappush(self._unused, turn)",
        "pass",
        _PACE_TESTS,
    ),
    Mutant(
        "the limit is never forgotten",
        _PACE,
        "now - self._start >= _FORGET",
        "False",
        _PACE_TESTS,
    ),
    Mutant(
        "a call waits for a delay beyond its deadline",
        f"{_LLM}/_attempts.py",
        "if 0 < left <= seconds:",
        "if False:",
        _PACE_TESTS,
    ),
    Mutant(
        "the highest temperature of a provider is refused",
        _FIT,
        "call.temperature > profile.max_temperature",
        "call.temperature >= profile.max_temperature",
        _FIT_TESTS,
    ),
    Mutant(
        "parts are not compared with what a provider accepts",
        _FIT,
        """if message["content"].__class__ is list:""",
        "if False:",
        _FIT_TESTS,
    ),
    Mutant(
        "every provider gets the role developer",
        _FIT,
        "return call if profile.developer_role else _without_developer(call)",
        "return call",
        _FIT_TESTS,
    ),
    Mutant(
        "a file may have two sources",
        _PARTS,
        "if len(given) != 1:",
        "if not given:",
        _PART_TESTS,
    ),
    Mutant(
        "a file without a name has none",
        _PARTS,
        'if source == "file_data" and name is None:',
        "if False:",
        _PART_TESTS,
    ),
    Mutant(
        "the first user message is cached, not the last",
        _CACHE,
        "*asked[-1:]",
        "*asked[:1]",
        _CACHE_TESTS,
    ),
    Mutant(
        "the key of a cache depends on the whole conversation",
        _CACHE,
        "beginning = [*call.tools, *first]",
        "beginning = [*call.tools, *call.messages]",
        _CACHE_TESTS,
    ),
    Mutant(
        "a raw reply is always in the response",
        f"{_LLM}/_reply.py",
        "if plan.call.raw and not isinstance(outcome, FailedAttempt):",
        "if not isinstance(outcome, FailedAttempt):",
        ("tests/llm/test_raw.py",),
    ),
    Mutant(
        "a vector may have NaN",
        f"{_LLM}/providers/embeddings.py",
        "if not vector or not math.isfinite(sum(vector)):",
        "if not vector:",
        ("tests/llm/test_vectors.py",),
    ),
    Mutant(
        "base64 is read with the most significant byte first",
        f"{_LLM}/providers/embeddings.py",
        'sys.byteorder == "big"',
        'sys.byteorder == "little"',
        ("tests/llm/test_vectors.py",),
    ),
    Mutant(
        "too few vectors are accepted",
        _EMBED,
        "if len(embedded.vectors) != len(plan.call.texts):",
        "if len(embedded.vectors) > len(plan.call.texts):",
        _EMBED_TESTS,
    ),
    Mutant(
        "a call fetches its key for every request",
        _EMBED,
        "            plan.route = attempts.plan.route  # with its key, if a callable returned it\n",
        "",
        ("tests/llm/test_embed.py",),
    ),
    Mutant(
        "the attempts of earlier requests count for later ones",
        f"{_LLM}/_attempts.py",
        "        self._sent = 0\n        self._failures = 0\n        self._adjusted",
        "        self._failures = 0\n        self._adjusted",
        ("tests/llm/test_embed.py",),
    ),
    Mutant(
        "vectors are in the order of the reply",
        _FORMATS,
        '            found.sort(key=lambda item: item["index"])\n',
        "            pass\n",
        _FORMAT_TESTS,
    ),
    Mutant(
        "the dimensions of embeddings are dropped if the provider rejects them",
        f"{_LLM}/_embed.py",
        '*("dimensions", "output_dimension", "parameters"),',
        "",
        ("tests/llm/test_embed_plan.py",),
    ),
    Mutant(
        "a list of models goes on after its last page",
        _LISTS,
        'if page.get("has_more") is True else None',
        "if True else None",
        _LIST_TESTS,
    ),
    Mutant(
        "a list of models never ends",
        f"{_LLM}/_models.py",
        "if page.cursor in (None, cursor):",
        "if page.cursor is None:",
        ("tests/llm/test_models.py",),
    ),
)
