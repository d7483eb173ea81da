"""Settings of one replica process, as the driver passes them to it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

AGENT_ID = "soak"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """Settings of one replica; they travel as one argument of its command line."""

    url: str
    prefix: str
    lease: float
    patience: float = 10.0
    retention: float = 900.0
    api_keys: Mapping[str, str] = field(default_factory=dict)  # none: anybody may ask
    descriptors: int | None = None  # open files of the process; None: as many as the system allows

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `dump` wrote."""
        return cls(**json.loads(text))

    def dump(self) -> str:
        """Return the settings as one argument."""
        return json.dumps(asdict(self))
