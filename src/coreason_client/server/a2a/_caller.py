"""Who calls an operation. No I/O."""

from dataclasses import dataclass
from typing import Self

from ..observe._spans import HeaderValues
from ._versions import V10

__all__ = ["Caller"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the principal whose tasks these are, the headers and version of the request."""

    principal: str
    user_id: str
    headers: HeaderValues
    version: str = V10

    @classmethod
    def of(cls, principal: str, tenant: object, headers: HeaderValues, version: str = V10) -> Self:
        """Return the caller with a principal; each tenant of it has its own tasks."""
        owner = f"{principal}\n{tenant}" if isinstance(tenant, str) and tenant else principal
        return cls(owner, principal.partition("/")[2] or principal, headers, version)
