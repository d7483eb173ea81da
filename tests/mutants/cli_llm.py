"""Mutants of `coreason llm` and its saved conversations."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_LLM = "coreason_client/cli/llm"
_STORE = f"{_LLM}/_store.py"
_STORE_TESTS = ("tests/cli/test_llm_store.py",)
_CHOOSE = f"{_LLM}/_history.py"
_CHOOSE_TESTS = ("tests/cli/test_llm_choose.py",)
_HISTORY_TESTS = ("tests/cli/test_llm_history.py",)

MUTANTS = (
    Mutant(
        "the event loop of a question to a model sleeps through Ctrl-C",
        f"{_LLM}/_exchange.py",
        "        _wake_often(asyncio.get_running_loop())",
        "        pass",
        ("tests/cli/test_llm_mcp.py",),
    ),
    Mutant(
        "a conversation moves to another API unnoticed",
        _CHOOSE,
        "if last.base_url == base_url:",
        "if True:",
        _CHOOSE_TESTS,
    ),
    Mutant(
        "an ambiguous id means the first conversation",
        _CHOOSE,
        "if len(found) > 1:",
        "if False:",
        _CHOOSE_TESTS,
    ),
    Mutant(
        "an id that is the beginning of another is ambiguous",
        _CHOOSE,
        "if prefix in found:",
        "if False:",
        _CHOOSE_TESTS,
    ),
    Mutant(
        "others can read the saved conversations",
        _STORE,
        "if private.stat().st_mode & 0o077 and",
        "if False and",
        _STORE_TESTS,
    ),
    Mutant(
        "deleted text stays in the file",
        _STORE,
        "PRAGMA secure_delete = ON",
        "PRAGMA secure_delete = OFF",
        _STORE_TESTS,
    ),
    Mutant(
        "attachments are never deleted",
        _STORE,
        "WHERE sha256 NOT IN (SELECT sha256 FROM turn_blobs)",
        "WHERE 0",
        _STORE_TESTS,
    ),
    Mutant(
        "a file of a newer version is written",
        _STORE,
        "if version > _VERSION:",
        "if False:",
        _STORE_TESTS,
    ),
    Mutant(
        "the last conversation is the one that began last",
        _STORE,
        "MAX(id) AS last, MIN(id) AS first",
        "MIN(id) AS last, MIN(id) AS first",
        _STORE_TESTS,
    ),
    Mutant(
        "an object of the user is taken for a reference",
        f"{_LLM}/_turns.py",
        "return {_OBJECT: packed} if _REFERENCE in packed or _OBJECT in packed else packed",
        "return packed",
        ("tests/cli/test_llm_blobs.py",),
    ),
    Mutant(
        "text that only looks like base64 is changed",
        f"{_LLM}/_turns.py",
        "return content if b64encode(content).decode() == text else None",
        "return content",
        ("tests/cli/test_llm_blobs.py",),
    ),
    Mutant(
        "a failed save loses the exit code of the answer",
        f"{_LLM}/_history.py",
        "        except StoreError as error:\n",
        "        except ZeroDivisionError as error:\n",
        _HISTORY_TESTS,
    ),
    Mutant(
        "what was received before Ctrl-C is not saved",
        f"{_LLM}/_question_answer.py",
        "if save() and isinstance(error, KeyboardInterrupt):",
        "if isinstance(error, ZeroDivisionError):",
        _HISTORY_TESTS,
    ),
    Mutant(
        "the query of a base URL is saved",
        f"{_LLM}/_history.py",
        'urlsplit(url)._replace(query="", fragment="")',
        'urlsplit(url)._replace(fragment="")',
        _HISTORY_TESTS,
    ),
    Mutant(
        "the name of a file counts more than its content",
        "coreason_client/cli/_attached.py",
        "media_type = type_of_content(content)",
        "media_type = type_of_name(filename) or type_of_content(content)",
        ("tests/cli/test_llm_parts.py",),
    ),
    Mutant(
        "a value that does not conform is printed",
        f"{_LLM}/_schema.py",
        'raise PydanticCustomError("schema", "{problem}", {"problem": problem})',
        "pass",
        ("tests/cli/test_llm_schema.py",),
    ),
    Mutant(
        "every second word after llm can be a command",
        "coreason_client/cli/_app.py",
        'name = " ".join(args[:2])',
        'name = " ".join([args[0], args[-1]])',
        ("tests/cli/test_group.py",),
    ),
)
