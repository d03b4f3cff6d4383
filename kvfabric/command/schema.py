"""``kvfabric schema``: the JSON Schema of scenario files."""

import json

import click


@click.command(epilog="Example: kvfabric schema > scenario.schema.json")
def command() -> None:
    """Print the JSON Schema of scenario files, so that editors complete and check them.

    In VS Code with the YAML extension, put this line on top of a scenario:

    # yaml-language-server: $schema=./scenario.schema.json
    """
    from kvfabric.schema import scenario_schema

    click.echo(json.dumps(scenario_schema(), indent=2))
