"""What all wire models share: immutable, readable by key, JSON without nulls."""

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

_SHOWN_PROBLEMS = 3
_LONGEST_WHERE = 200  # the name of an unknown field may be of any length


class CoReasonBaseModel(BaseModel):
    """The base of every wire model; unknown fields are ignored unless a model refuses them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def dump(self) -> dict[str, Any]:
        """Return a JSON-ready dict; fields that are None are left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_json(self) -> str:
        """Return compact JSON; fields that are None are left out."""
        return self.model_dump_json(exclude_none=True)

    # RFC 004 reads packet.p['data']['citations'][0]['uri']: a payload is a model where it has
    # the shape of one and a dict where it has not, and a reader should not need to care.

    def __getitem__(self, key: str) -> Any:
        """Read a field by its name.

        Raises:
            KeyError: there is no such field.
        """
        if key in type(self).model_fields:
            return getattr(self, key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in type(self).model_fields

    def get(self, key: str, default: Any = None) -> Any:
        """Read a field by its name, or the default when there is no such field."""
        return getattr(self, key) if key in type(self).model_fields else default


class StrictModel(CoReasonBaseModel):
    """A wire model that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


def utc_now() -> datetime:
    return datetime.now(UTC)


def _as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


# Two branches because the first stays inside pydantic-core: a Python validator on every
# timestamp would cost a tenth of a packet's validation.
Timestamp = Annotated[
    AwareDatetime | Annotated[datetime, AfterValidator(_as_utc)],
    Field(union_mode="left_to_right"),
]
"""A moment; one that comes without a zone is taken as UTC."""


def _uuid_as_text(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value


Id = Annotated[str, BeforeValidator(_uuid_as_text)]
"""An id that is a string in JSON; a `UUID` object is taken as its text."""


def explain(error: ValidationError) -> str:
    """Say in one line which fields were wrong and why, without repeating their values."""
    problems = error.errors(include_url=False, include_input=False)
    shown = [_explain_one(problem) for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        shown.append(f"and {len(problems) - _SHOWN_PROBLEMS} more")
    return "; ".join(shown)


def _explain_one(problem: ErrorDetails) -> str:
    where = ".".join(map(str, problem["loc"])) or "value"
    words = problem["msg"]
    if problem["type"] == "union_tag_invalid":  # whose message repeats the tag
        context = problem["ctx"]
        words = f"{context['discriminator']} must be one of {context['expected_tags']}"
    return f"{where[:_LONGEST_WHERE]}: {words}"


__all__ = ["CoReasonBaseModel", "Id", "StrictModel", "Timestamp", "explain", "utc_now"]
