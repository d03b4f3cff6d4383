"""The models and GPUs that a scenario may name: the shipped ones, and those of its own files.

A file has the columns of `traffic/catalog/models.csv` or `gpus.csv`; its rows come beside the
shipped ones and replace those of the same name. ``kv_format`` is the format of cached values of
every model that the scenario serves; without it a model keeps that of its row.
"""

from dataclasses import replace
from pathlib import Path

from kvfabric.scenario import Scenario
from kvfabric.source import Source, file_path, located
from topo.mistake import Key, Place
from traffic.compute.gpu import Gpu, gpu, gpus
from traffic.model import Model, model, models


def model_of(scenario: Scenario, source: Source, name: str, *place: Key) -> Model:
    """The model of that name, which stands at ``place``, as the scenario serves it."""
    file = _file(scenario.catalogue.models, source)
    with located(source, "catalogue", "models"):
        models(file)
    with located(source, *place):
        found = model(name, file)
    if scenario.kv_format is None:
        return found
    return replace(found, kv_value_bytes=found.value_bytes(scenario.kv_format))


def gpu_of(scenario: Scenario, source: Source, name: str, *place: Key) -> Gpu:
    """The GPU of that name, which stands at ``place``."""
    file = _file(scenario.catalogue.gpus, source)
    with located(source, "catalogue", "gpus"):
        gpus(file)
    with located(source, *place):
        return gpu(name, file)


def catalogues_of(scenario: Scenario, source: Source) -> list[tuple[Place, Path]]:
    """The scenario's own catalogue files, with the places that name them."""
    part = scenario.catalogue
    named = [("models", part.models), ("gpus", part.gpus)]
    return [
        (("catalogue", key), file_path(name, source)) for key, name in named if name is not None
    ]


def told(scenario: Scenario) -> str:
    """What to add to the models' names in a report: the format of cached values, if it is set."""
    return "" if scenario.kv_format is None else f", KV cache as {scenario.kv_format}"


def _file(name: str | None, source: Source) -> Path | None:
    return None if name is None else file_path(name, source)
