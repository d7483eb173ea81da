"""The body of a request to cut the connections of a stream. Pure."""

from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..http._problems import validation_problem

__all__ = ["MAX_CUT_BYTES", "CutRequest", "parse_cut"]

MAX_CUT_BYTES: Final = 1024
_MAX_SEED: Final = 2**53 - 1  # larger numbers change in JavaScript


class CutRequest(BaseModel):
    """Which stream to cut now, and again after numbers of packets that follow from a seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stream_id: UUID
    seed: int | None = Field(default=None, strict=True, ge=0, le=_MAX_SEED)


def parse_cut(body: bytes) -> CutRequest:
    """Parse the body.

    Raises:
        Problem: 422, naming the fields.
    """
    try:
        return CutRequest.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error) from None
