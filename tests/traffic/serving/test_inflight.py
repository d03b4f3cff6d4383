"""Hand-offs in flight are capped by the memory of the decode side, and the cap binds."""

from collections.abc import Callable

import numpy as np
import pytest

from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.model import model
from traffic.request import request_table
from traffic.serving.run import Outcome

MS = 10**9
LLAMA = model("Llama-3.1-8B")
INPUT, OUTPUT = 500, 20


@pytest.mark.parametrize("fit", [1, 2, 5])
def test_as_many_hand_offs_are_in_flight_as_whole_sequences_fit_and_never_more(
    fit: int,
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    wire: Callable[..., Emulator],
) -> None:
    need = LLAMA.kv_bytes(INPUT + OUTPUT)
    made = pools(12, 1, memory=fit * need + need // 2)
    assert made.decode.kv_capacity_bytes // need == fit
    count = 12
    requests = request_table(
        arrival_ps=[0] * count, input_tokens=[INPUT] * count, output_tokens=[OUTPUT] * count
    )
    slow = 5000 * MS  # far longer than a decode: only memory keeps the others back
    table = run(requests, made, emulator=wire(slow)).requests
    column = {name: values.astype(np.int64) for name, values in table.items()}
    release, ready = column["handoff_release_ps"], column["kv_ready_ps"]
    at_once = [int(((release <= at) & (ready > at)).sum()) for at in release.tolist()]
    assert max(at_once) == fit
    waited = np.sort(column["admitted_ps"] - column["prefill_end_ps"])
    assert (waited[:fit] == 0).all()
    assert (waited[fit:] > slow).all()
    assert int(column["finish_ps"].max()) > -(-count // fit) * slow
