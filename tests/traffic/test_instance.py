"""Which hosts form an instance: those that stand together; and what their NICs move."""

from collections.abc import Callable

import pytest

from topo.error import KvfabricError
from topo.fabric import Fabric, Role, Switch
from traffic.compute.gpu import gpu
from traffic.instance import Deployment, Pool, instances
from traffic.model import model


def test_what_is_left_over_in_racks_is_grouped_in_host_order() -> None:
    fabric = Fabric("interleaved")
    for i, rack in enumerate((0, 1, 1, 1, 0, 0)):
        fabric.add_host(f"h{i}", rack=rack, role=Role.DECODE)
    assert instances(fabric, Role.DECODE, 2) == ((0, 4), (1, 2), (3, 5))


def test_instances_keep_together_what_stands_together() -> None:
    fabric = Fabric("two racks")
    switch = Switch()
    for rack in (0, 1):
        leaf = fabric.add_switch(f"leaf{rack}", tier=1, switch=switch, rack=rack)
        for i in range(3):
            host = fabric.add_host(f"h{rack}.{i}", rack=rack, role=Role.PREFILL)
            fabric.connect(host, leaf, rate_bps=10**9)
    assert instances(fabric, Role.PREFILL, 1) == ((1,), (2,), (3,), (5,), (6,), (7,))
    assert instances(fabric, Role.PREFILL, 2) == ((1, 2), (3, 7), (5, 6))
    with pytest.raises(KvfabricError, match="tp 8: more tensor parallelism than the 6 prefill"):
        instances(fabric, Role.PREFILL, 8)
    with pytest.raises(KvfabricError, match="0 decode GPU"):
        instances(fabric, Role.DECODE, 1)


@pytest.mark.parametrize(
    ("tp", "share"),
    [((1, 1), 1), ((8, 8), 1 / 8), ((2, 8), 1 / 2), ((8, 2), 1 / 2), ((2, 1), 1), ((4, 16), 1 / 2)],
)
def test_the_busiest_nic_moves_the_share_of_the_side_with_fewer_ranks(
    tp: tuple[int, int], share: float, pools: Callable[..., Deployment]
) -> None:
    assert pools(tp=tp).nic_share == pytest.approx(share)


@pytest.mark.parametrize(("tp", "share"), [((8, 8), 1), ((4, 8), 2), ((8, 4), 1)])
def test_a_latent_goes_whole_to_every_decode_rank(tp: tuple[int, int], share: float) -> None:
    p, d = tp
    deepseek, card = model("DeepSeek-V3"), gpu("B300-SXM")
    made = Deployment(
        Pool((tuple(range(p)),), deepseek, card, p),
        Pool((tuple(range(100, 100 + d)),), deepseek, card, d),
    )
    assert made.nic_share == share
    assert made.decode.copies == d
