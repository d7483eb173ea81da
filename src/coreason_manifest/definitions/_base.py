"""Base classes and field types of all wire models: immutable, readable by key, no nulls."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic_core import ErrorDetails

_MAX_PROBLEMS = 3
_MAX_LOCATION = 200  # the name of an unknown field may have any length


class CoReasonBaseModel(BaseModel):
    """Base class of all wire models; unknown fields are ignored unless a model rejects them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def dump(self) -> dict[str, Any]:
        """Return a JSON-ready dict; fields that are None are omitted."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_json(self) -> str:
        """Return compact JSON; fields that are None are omitted."""
        return self.model_dump_json(exclude_none=True)

    # RFC 004 reads packet.p['data']['citations'][0]['uri']. A payload is a model if it has the
    # shape of one, otherwise a dict; the same code has to work for both.

    def __getitem__(self, key: str) -> Any:
        """Return a field by its name.

        Raises:
            KeyError: the field does not exist.
        """
        if key in type(self).model_fields:
            return getattr(self, key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in type(self).model_fields

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field by its name, or the default if the field does not exist."""
        return getattr(self, key) if key in type(self).model_fields else default


class StrictModel(CoReasonBaseModel):
    """A wire model that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid")


def utc_now() -> datetime:
    return datetime.now(UTC)


def _as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


# Two branches, because the first one runs inside pydantic-core. A Python validator for every
# timestamp would be a tenth of the cost of validating a packet.
Timestamp = Annotated[
    AwareDatetime | Annotated[datetime, AfterValidator(_as_utc)],
    Field(union_mode="left_to_right"),
]
"""A date and time; without a time zone it is read as UTC."""


def _uuid_as_text(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value


Id = Annotated[str, BeforeValidator(_uuid_as_text)]
"""An id that is a string in JSON; a `UUID` object is converted to a string."""


def explain(error: ValidationError) -> str:
    """Return one line that names the invalid fields and the reasons, without the values."""
    problems = error.errors(include_url=False, include_input=False)
    shown = [_explain_one(problem) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return "; ".join(shown)


def _explain_one(problem: ErrorDetails) -> str:
    location = ".".join(map(str, problem["loc"])) or "value"
    message = problem["msg"]
    if problem["type"] == "union_tag_invalid":  # its own message contains the value
        context = problem["ctx"]
        message = f"{context['discriminator']} must be one of {context['expected_tags']}"
    return f"{location[:_MAX_LOCATION]}: {message}"
