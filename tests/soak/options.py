"""Settings of one replica process, as the driver passes them to it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

AGENT_ID = "soak"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """Settings of one replica; they are passed as one command line argument."""

    url: str
    prefix: str  # in Postgres the schema
    lease: float
    patience: float = 10.0
    retention: float = 900.0
    api_keys: Mapping[str, str] = field(default_factory=dict)  # empty: no key is needed
    cluster: bool = False  # the URL is that of a node of a cluster
    confirmations: int = 0  # replicas of the store that must confirm a write; 0: it has no option
    descriptors: int | None = None  # limit for open files; None: the limit of the system
    durable: bool = False
    max_restarts: int = 3
    drain_timeout: float = 2.0
    program: str = "tests.soak.replica"  # the module that the process runs

    @property
    def in_postgres(self) -> bool:
        """True if the streams are in Postgres, False if they are in Valkey."""
        return self.url.startswith("postgresql:")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of `dump`."""
        return cls(**json.loads(text))

    def dump(self) -> str:
        """Return the settings as one argument."""
        return json.dumps(asdict(self))
