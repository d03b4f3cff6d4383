"""What every mapping of a scenario file shares: unknown keys are refused, numbers have bounds."""

from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Small = Annotated[int, Meta(ge=1, le=65_536)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of the scenario file; unknown keys are refused."""
