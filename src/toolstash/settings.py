"""The settings of one store or Ctx. The only file that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_URL = "embedded:"
DEFAULT_PREFIX = "toolstash"
MOST_COMMAND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the data is and how long to wait for it.

    Attributes:
        url: Where the store is (`redis://…`, `unix://…`, `embedded:`, `memory:`, …).
        prefix: What every key starts with.
        max_connections: Connections per process and event loop.
        wait_seconds: How long a call waits for a free connection.
        command_timeout_seconds: How long one command may take, connecting included.
    """

    url: str = DEFAULT_URL
    prefix: str = DEFAULT_PREFIX
    max_connections: int = 64
    wait_seconds: float = 5.0
    command_timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not self.prefix:
            raise ValueError("prefix must not be empty; None takes the default")
        _require(int, "max_connections", self.max_connections)
        if self.max_connections < 1:
            raise ValueError(f"max_connections must be at least 1, not {self.max_connections}")
        for name in ("wait_seconds", "command_timeout_seconds"):
            _require((int, float), name, getattr(self, name))
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0 seconds, not {getattr(self, name)}")
        if self.command_timeout_seconds > MOST_COMMAND_SECONDS:
            # The server remembers a write for two minutes, so that a caller who repeats it is answered and not obeyed.
            raise ValueError(
                f"command_timeout_seconds must be at most {MOST_COMMAND_SECONDS:g}, not {self.command_timeout_seconds}"
            )

    @classmethod
    def from_environment(
        cls,
        *,
        url: str | None = None,
        prefix: str | None = None,
        max_connections: int = 64,
        wait_seconds: float = 5.0,
        command_timeout_seconds: float = 5.0,
        environment: Mapping[str, str] = os.environ,
    ) -> Settings:
        """What is given, then `TOOLSTASH_URL` and `TOOLSTASH_PREFIX` unless they are empty, then the defaults."""
        return cls(
            url=url if url is not None else environment.get("TOOLSTASH_URL") or DEFAULT_URL,
            prefix=prefix if prefix is not None else environment.get("TOOLSTASH_PREFIX") or DEFAULT_PREFIX,
            max_connections=max_connections,
            wait_seconds=wait_seconds,
            command_timeout_seconds=command_timeout_seconds,
        )


def _require(kind: type | tuple[type, ...], name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        wanted = "a whole number" if kind is int else "a number of seconds"
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
