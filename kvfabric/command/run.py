"""``kvfabric run``: one scenario, without its comparison."""

from pathlib import Path

import click

from kvfabric.command.study import compare_and_report, study_command


@click.command(
    epilog="""\b
Examples:
  kvfabric run scenarios/first-look.yaml
  kvfabric run scenarios/first-look.yaml --emulator fluid --count 1000 --out out/fluid
  kvfabric run scenarios/first-look.yaml --assert 'over_budget<5%' --assert 'drops<=0'
"""
)
@study_command
def command(scenario: Path, **options: object) -> int:
    """Run SCENARIO with the values that stand outside its `compare`."""
    return compare_and_report(scenario, compare=False, **options)  # type: ignore[arg-type]
