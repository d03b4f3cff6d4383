"""Mistakes in the values of a scenario, told by `topo.mistake` at their line."""

from msgspec import Struct

from kvfabric.scenario import Scenario
from kvfabric.source import ScenarioError, Source
from topo.mistake import Place, example_at, told


def mistake(
    source: Source, text: str, under: Place = (), root: type[Struct] = Scenario
) -> ScenarioError:
    """What msgspec says of a ``root`` that stands at a place, with the place of the value."""
    place, words = told(text, root, source.at(under))
    return source.error((*under, *place), words)


def unmeasured(source: Source, warmup: int, count: int) -> ScenarioError:
    """A warm-up that takes all requests of a seed."""
    return source.error(
        ("run", "warmup"),
        f"{warmup} of {count} requests a seed: nothing is left to measure; "
        "write more requests or a shorter warm-up",
    )


def above_nothing(source: Source, place: Place) -> ScenarioError:
    """A quantity that stands as 0 where that makes no sense."""
    example = example_at(place, Scenario)
    return source.error(place, f"must be above 0; write e.g. {example}")
