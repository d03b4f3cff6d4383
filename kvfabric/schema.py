"""The JSON Schema of scenario files, so that editors complete and check them."""

from functools import partial
from typing import Any

import msgspec

from kvfabric.part import Part
from kvfabric.policy import DEFAULT_KIND, PolicyPart
from kvfabric.quantity import quantity_schema, read_quantity
from kvfabric.scenario import ScenarioFile
from traffic.policy.registry import POLICIES


def scenario_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of `ScenarioFile`, with the defaults as files write them."""
    (schema, _), parts = msgspec.json.schema_components(
        [ScenarioFile, PolicyPart],
        schema_hook=quantity_schema,
        ref_template="#/$defs/{name}",
    )
    schema["$defs"] = parts
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
    parts["ScenarioFile"]["properties"]["policy"] = _policy(parts.pop("PolicyPart"))
    return schema


def _policy(part: dict[str, Any]) -> dict[str, Any]:
    """A policy's name, or its mapping: parameters of its own may stand beside the known keys."""
    name = {
        "anyOf": [
            {"enum": list(POLICIES)},
            {"type": "string", "description": "Of an installed package, or module:Class."},
        ]
    }
    keys = {"kind": name, "label": {"type": "string"}, **part["properties"]}
    mapping = {"type": "object", "properties": keys, "description": part["description"]}
    return {"anyOf": [name, mapping], "default": DEFAULT_KIND}
