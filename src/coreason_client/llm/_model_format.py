"""The interface of a list of models: requests and replies of one wire. No I/O."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from .types import ModelInfo

__all__ = ["ModelFormat", "ModelPage"]


@dataclass(frozen=True, slots=True)
class ModelPage:
    """The models on one page of a list, and the cursor of the next page, None on the last."""

    models: list[ModelInfo]
    cursor: str | None = None


class ModelFormat(ABC):
    """One wire format of lists of models. Instances have no state; one serves all calls."""

    @abstractmethod
    def url(self, base: str, cursor: str | None) -> str:
        """Return the URL of a page; `base` does not end with a slash."""

    @abstractmethod
    def read(self, reply: Any, provider: str) -> ModelPage:
        """Read a page of the models of a provider.

        Raises:
            Malformed: the reply does not follow the format.
        """
