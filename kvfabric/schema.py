"""The JSON Schema of scenario files, so that editors complete and check them."""

from functools import partial
from typing import Any

import msgspec

from kvfabric.part import Part
from kvfabric.quantity import quantity_schema, read_quantity
from kvfabric.scenario import ScenarioFile


def scenario_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of `ScenarioFile`, with the defaults as files write them."""
    schema = msgspec.json.schema(ScenarioFile, schema_hook=quantity_schema)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "kvfabric scenario"
    kinds: list[type[Part]] = [*Part.__subclasses__(), ScenarioFile]
    for kind in kinds:
        told = schema["$defs"].get(kind.__name__)
        if told is None:
            continue
        for field in msgspec.structs.fields(kind):
            make = field.default_factory
            if isinstance(make, partial) and make.func is read_quantity:
                told["properties"][field.encode_name]["default"] = make.args[1]
    return schema
