"""``kvfabric init``: a commented scenario from GPU counts, model, rate and objectives."""

import tempfile
from pathlib import Path

import click

from kvfabric.load import load
from kvfabric.source import ScenarioError
from kvfabric.starter import Facts, starter
from topo.error import KvfabricError
from traffic.compute.gpu import gpu
from traffic.model import model


@click.command(
    epilog="""\b
Example:
  kvfabric init --prefill 32 --decode 32 --model gpt-oss-120b --rate 400/s \\
    --ttft 500ms --file mine.yaml
"""
)
@click.option(
    "--prefill",
    type=click.IntRange(1, 65536),
    default=32,
    show_default=True,
    help="GPUs that read prompts.",
)
@click.option(
    "--decode",
    type=click.IntRange(1, 65536),
    default=32,
    show_default=True,
    help="GPUs that write answers.",
)
@click.option(
    "--model", default="gpt-oss-120b", show_default=True, help="A model of the catalogue."
)
@click.option("--gpu", default="H100-SXM", show_default=True, help="A GPU of the catalogue.")
@click.option(
    "--tp",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Tensor-parallel width of an instance.",
)
@click.option("--nic", default="400Gbps", show_default=True, help="NIC rate, one NIC a GPU.")
@click.option("--rate", default="400/s", show_default=True, help="Requests per second.")
@click.option("--ttft", default="500ms", show_default=True, help="Time-to-first-token objective.")
@click.option("--tpot", default="40ms", show_default=True, help="Time-per-output-token objective.")
@click.option(
    "--handoff", default=None, help="Hand-off budget; without it, from the TTFT objective."
)
@click.option("--name", default="my study", show_default=True, help="The study's name.")
@click.option(
    "--file",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Where to write; standard output without it. Never overwrites.",
)
def command(target: Path | None, **facts: str | int | None) -> None:
    """Write a commented scenario to start from."""
    model(str(facts["model"]))
    gpu(str(facts["gpu"]))
    _check_memory(str(facts["model"]), str(facts["gpu"]), int(facts["tp"] or 1))
    text = starter(Facts(**facts))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / "scenario.yaml"
        trial.write_text(text, encoding="utf-8")
        try:
            load(trial)
        except ScenarioError as error:
            told = str(error).removeprefix(str(trial)).lstrip(":0123456789").strip()
            raise KvfabricError(f"init: {told}") from None
    if target is None:
        click.echo(text, nl=False)
        return
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise KvfabricError(f"{target}: exists; write another --file") from None
    except OSError as error:
        raise KvfabricError(f"{target}: cannot be written: {error.strerror}") from None
    click.echo(f"wrote {target}; next: kvfabric compare {target} --out results")


def _check_memory(name: str, card: str, tp: int) -> None:
    """Refuse a model that the instances cannot hold: a scenario to start from has to run."""
    from traffic.compute.roofline import kv_capacity_bytes
    from traffic.error import ComputeError

    try:
        kv_capacity_bytes(model(name), gpu(card), tp)
    except ComputeError as error:
        raise KvfabricError(f"init: {error}") from None
