"""The model of calls without `model`."""

__all__ = ["DEFAULT_EMBEDDING_MODEL", "DEFAULT_MODEL"]


class _DefaultModel(str):
    """A separate type, so that the default is distinct from equal text passed by a caller."""

    __slots__ = ()


DEFAULT_MODEL: str = _DefaultModel("gpt-4-turbo")
"""The model of calls without `model`, unless the variable `DEFAULT_MODEL` sets another one."""

DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
"""The model of embeddings without `model`."""
