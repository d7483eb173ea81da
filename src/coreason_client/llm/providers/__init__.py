"""The adapters, one module per wire format, in a table."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from .._adapter import Adapter

__all__ = ["ADAPTERS"]


class _Adapters(Mapping[str, Adapter]):
    """Imports the module of an adapter on first use: most programs use one or two."""

    def __init__(self, modules: Mapping[str, tuple[str, str]]) -> None:
        self._modules = modules  # and the name of the adapter in it
        self._loaded: dict[str, Adapter] = {}

    def __getitem__(self, wire: str) -> Adapter:
        adapter = self._loaded.get(wire)
        if adapter is None:
            module, name = self._modules[wire]
            adapter = self._loaded[wire] = getattr(import_module(f".{module}", __package__), name)
        return adapter

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


ADAPTERS: Mapping[str, Adapter] = _Adapters(
    {
        "openai": ("openai", "ADAPTER"),
        "anthropic": ("anthropic", "ADAPTER"),
        "gemini": ("gemini", "ADAPTER"),
        "vertex": ("gemini", "VERTEX"),
        "vertex-claude": ("anthropic", "VERTEX"),
        "ollama": ("ollama", "ADAPTER"),
        "responses": ("responses", "ADAPTER"),
        "bedrock": ("bedrock", "ADAPTER"),
    }
)
