"""``kvfabric compare``: fabrics x policies on the same requests, with a verdict and a report."""

from pathlib import Path

import click

from kvfabric.command.study import compare_and_report, study_command


@click.command(
    epilog="""\b
Examples:
  kvfabric compare scenarios/first-look.yaml
  kvfabric compare scenarios/first-look.yaml --seeds 20 --out out/narrow
  kvfabric compare scenarios/first-look.yaml --trace traces/AzureLLMInferenceTrace_code.csv \\
    --window 0s 20s --count 40
"""
)
@study_command
def command(scenario: Path, **options: object) -> int:
    """Compare the alternatives of SCENARIO; print a table and a verdict, write a report.

    An existing results folder of the same scenario is resumed: finished cells are kept, and more
    --seeds extend it.
    """
    return compare_and_report(scenario, compare=True, **options)  # type: ignore[arg-type]
