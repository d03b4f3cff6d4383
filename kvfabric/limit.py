"""What a run leaves out, in sentences for its report."""

from kvfabric.scenario import Scenario

_ALWAYS = (
    "Prefill takes one prompt at a time; decode batches continuously. Compute times are rooflines "
    "at stated efficiencies, not measurements.",
    "No prefix cache, chunked prefill, layer-wise hand-off or unequal tensor parallelism.",
    "One NIC a GPU; no PCIe, memory-copy or host-processor limits.",
    "Nothing but hand-offs crosses the fabric; no link or switch fails.",
    "The router sees exact and immediate loads; its decisions take effect after the control delay.",
    "Cost is a model of switches and the links between them; NICs and host cables are left out, "
    "being equal in every alternative.",
)
_PACKET = (
    "Switches store and forward; no cut-through, flowlet, spray or adaptive routing; no pause "
    "watchdog; a host never pauses its switch.",
    "Every hand-off opens new queue pairs, which start at line rate.",
    "DCQCN's settings decide the tail of colliding flows: compare `network.transport.preset`.",
)
_FLUID = (
    "The fluid has no queues, pauses, marks, losses or congestion control: rates are max-min fair "
    "at every instant.",
)


def not_modelled(scenario: Scenario) -> list[str]:
    """One sentence each, most general first."""
    return [*_ALWAYS, *(_FLUID if scenario.run.emulator == "fluid" else _PACKET)]
