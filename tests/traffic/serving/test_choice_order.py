"""The order of choice, joint choice, and who may be held back, turned away or ranked."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from msgspec import Struct
from numpy.typing import NDArray

from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.policy.choice import (
    LATER,
    NOBODY,
    REFUSED,
    NoSettings,
    Policy,
    PolicyError,
    Request,
    Sight,
    View,
)
from traffic.policy.registry import policy
from traffic.record.ledger import Ledger
from traffic.request import Prefix, request_table
from traffic.serving.mode import Serving
from traffic.serving.router import Place, Router, Service
from traffic.serving.run import Outcome, serve_all

MS = 10**9
FLAT = np.full((2, 3), 4, np.int32)


class Asked:
    """Chooses what it is told to and remembers the questions."""

    name: ClassVar[str] = "asked"
    settings: ClassVar[type[Struct]] = NoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset()
    source: ClassVar[str] = "a test"

    def __init__(self, prefill: int = 0, decode: int = 0) -> None:
        self.questions: list[tuple[str, int, int]] = []
        self._answer = (prefill, decode)

    def prefill(self, request: Request, view: View) -> int:
        self.questions.append(("prefill", request.request, request.decode))
        return self._answer[0]

    def decode(self, request: Request, prefill: int, view: View) -> int:
        self.questions.append(("decode", request.request, prefill))
        return self._answer[1]

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        return np.ones(hops.shape, np.bool_)


class Scored(Asked):
    """The same with a cost for every pair."""

    def __init__(self, costs: list[list[float]]) -> None:
        super().__init__()
        self._costs = costs

    def scores(self, request: Request, view: View) -> NDArray[np.float64]:
        return np.array(self._costs, np.float64)


def ledger(tokens: int = 550, output: int = 150) -> Ledger:
    return Ledger.open(request_table(arrival_ps=[0], input_tokens=[tokens], output_tokens=[output]))


@pytest.fixture
def routed(pools: Callable[..., Deployment]) -> Callable[..., Router]:
    def made(chosen: Policy, order: str = "prefill_first", **rest: object) -> Router:
        service = Service(pools(2, 3), chosen, FLAT, order=order, **rest)  # type: ignore[arg-type]
        return Router(service, ledger(), chunk_tokens=2048)

    return made


def test_prefill_first_leaves_decode_for_later(routed: Callable[..., Router]) -> None:
    chosen = Asked(1, 2)
    router = routed(chosen)
    assert router.place(0, View.idle(FLAT)) == Place(1, -1)
    assert router.decode(0, 1, View.idle(FLAT)) == 2
    assert chosen.questions == [("prefill", 0, -1), ("decode", 0, 1)]


def test_decode_first_asks_for_decode_without_a_prefill_and_tells_prefill_of_it(
    routed: Callable[..., Router],
) -> None:
    chosen = Asked(1, 2)
    assert routed(chosen, "decode_first").place(0, View.idle(FLAT)) == Place(1, 2)
    assert chosen.questions == [("decode", 0, -1), ("prefill", 0, 2)]


def test_joint_takes_the_least_score_among_the_healthy_that_a_path_joins(
    routed: Callable[..., Router], pools: Callable[..., Deployment]
) -> None:
    chosen = Scored([[5, 1, 2], [4, 3, 9]])
    view = View.idle(FLAT)
    assert routed(chosen, "joint").place(0, view) == Place(0, 1)
    view.decode_healthy[1] = False
    assert routed(chosen, "joint").place(0, view) == Place(0, 2)
    view.prefill_healthy[0] = False
    assert routed(chosen, "joint").place(0, view) == Place(1, 0)
    view.prefill_healthy[1] = False
    assert routed(chosen, "joint").place(0, view) == Place(NOBODY, -1)
    gap = np.array([[4, -1, 4], [4, 4, 4]], np.int32)
    service = Service(pools(2, 3), chosen, gap, order="joint")
    assert Router(service, ledger()).place(0, View.idle(gap)) == Place(0, 2)


def test_ties_of_a_joint_choice_are_drawn_and_not_always_the_first_pair(
    pools: Callable[..., Deployment],
) -> None:
    service = Service(pools(2, 3), Scored([[1, 1, 1], [1, 1, 1]]), FLAT, order="joint")
    table = request_table(arrival_ps=[0] * 60, input_tokens=[9] * 60, output_tokens=[1] * 60)
    router = Router(service, Ledger.open(table), seed=3)
    assert {router.place(i, View.idle(FLAT))[:2] for i in range(60)} == {
        (p, d) for p in range(2) for d in range(3)
    }


def test_a_policy_without_scores_is_refused_for_a_joint_choice(
    pools: Callable[..., Deployment],
) -> None:
    with pytest.raises(PolicyError, match="policy random: has no joint choice"):
        Service(pools(2, 3), policy("random", FLAT), FLAT, order="joint")
    with pytest.raises(PolicyError, match="order 'both': not known"):
        Service(pools(2, 3), policy("random", FLAT), FLAT, order="both")


def test_static_groups_keep_to_a_group_whichever_side_is_chosen_first() -> None:
    hops = np.full((4, 6), 4, np.int32)
    chosen = policy("static_groups", hops, settings={"groups": 2})
    view = View.idle(hops)
    view.decode_requests[:] = [2, 2, 2, 1, 2, 2]
    view.prefill_requests[:] = [0, 0, 3, 2]
    request = Request(0, 550, 150, 1000)
    assert chosen.decode(request, -1, view) == 3
    assert chosen.prefill(request._replace(decode=3), view) == 3
    view.decode_healthy[3:] = False
    assert chosen.prefill(request, view) in (0, 1)
    assert chosen.decode(request, 3, view) == NOBODY


def test_topology_aware_chooses_the_prefill_instance_near_a_decode_instance_chosen_first() -> None:
    hops = np.array([[4], [2], [4], [2]], np.int32)
    chosen = policy("topology_aware", hops)
    view = View.idle(hops)
    request = Request(0, 550, 150, 1000, decode=0)
    view.prefill_requests[:] = [0, 1, 0, 2]
    # Load 3: the bound is ceil(1.5 x 4 / 4) = 2.
    assert chosen.prefill(request, view) == 1
    view.prefill_healthy[1] = False
    # Of three with load 2 the bound is ceil(1.5 x 3 / 3) = 2, and instance 3 is at it.
    assert chosen.prefill(request, view) in (0, 2)


def test_an_unhealthy_answer_is_refused(routed: Callable[..., Router]) -> None:
    view = View.idle(FLAT)
    view.prefill_healthy[1] = False
    with pytest.raises(PolicyError, match="chose prefill instance 1, which is not healthy"):
        routed(Asked(1, 0)).place(0, view)
    with pytest.raises(PolicyError, match="chose prefill instance 7 of 2"):
        routed(Asked(7, 0)).place(0, view)


@pytest.mark.parametrize("name", ["random", "round_robin", "least_loaded", "topology_aware"])
def test_only_the_healthy_are_chosen_and_nobody_when_there_is_none(name: str) -> None:
    chosen = policy(name, FLAT, seed=5)
    view = View.idle(FLAT)
    view.prefill_healthy[:] = [False, True]
    view.decode_healthy[:] = [True, False, True]
    some = [Request(i, 550, 150, 1000) for i in range(50)]
    assert {chosen.prefill(r, view) for r in some} == {1}
    assert {chosen.decode(r, 1, view) for r in some} == {0, 2}
    view.prefill_healthy[:] = False
    view.decode_healthy[:] = False
    assert chosen.prefill(some[0], view) == NOBODY
    assert chosen.decode(some[0], 1, view) == NOBODY


@pytest.mark.parametrize("order", ["prefill_first", "decode_first"])
def test_every_order_serves_all_and_meets_the_same_lengths(
    order: str, pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(
        arrival_ps=[i * MS for i in range(30)],
        input_tokens=[500 + i for i in range(30)],
        output_tokens=[i % 4 for i in range(30)],
    )
    service = Service(pools(2, 3), policy("least_loaded", FLAT), FLAT, order=order)
    outcome: Outcome = serve_all(table, [service], wire(MS), control_delay_ps=20_000_000)
    assert (outcome.requests["status"] == 0).all()
    assert (outcome.requests["decode"] >= 0).sum() == np.count_nonzero(table.output_tokens)


class Holding(Asked):
    """Holds every request back until a time, or for ever."""

    def __init__(self, until_ps: int) -> None:
        super().__init__()
        self._until = until_ps

    def prefill(self, request: Request, view: View) -> int:
        return LATER if view.now_ps < self._until else 0


def test_a_request_that_is_held_back_is_asked_about_again_but_not_for_ever(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0], input_tokens=[10], output_tokens=[1])
    service = Service(pools(2, 3), Holding(7 * MS), FLAT)
    outcome = serve_all(table, [service], wire(MS), control_delay_ps=20_000_000)
    assert outcome.requests["prefill_start_ps"].tolist() == [7 * MS]
    with pytest.raises(PolicyError, match="held request 0 back for more than 100 s"):
        serve_all(table, [Service(pools(2, 3), Holding(2**62), FLAT)], wire(MS))


def test_a_request_that_is_turned_away_is_rejected(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0], input_tokens=[10], output_tokens=[1])
    outcome = serve_all(table, [Service(pools(2, 3), Asked(REFUSED), FLAT)], wire(MS))
    assert outcome.requests["status"].tolist() == [2]


class Rising(Holding):
    """Raises the priority of what it holds back."""

    def priority(self, request: Request, view: View) -> int:
        return request.priority + 1

    def counters(self) -> dict[str, int]:
        return {"raised": 1}


def test_a_request_that_is_asked_about_again_is_told_with_its_own_priority(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0], input_tokens=[10], output_tokens=[1], priority=[2])
    outcome = serve_all(table, [Service(pools(2, 3), Rising(20 * MS), FLAT)], wire(MS))
    assert outcome.requests["priority"].tolist() == [3]
    assert outcome.counters == {"policy.asked.raised": 1}


def test_a_note_says_that_colocated_instances_have_no_order_of_choice(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0], input_tokens=[10], output_tokens=[1])
    service = Service(pools(2, 3), Asked(1), np.zeros((5, 5), np.int32), order="decode_first")
    outcome = serve_all(table, [service], wire(MS), rules=Serving("colocated"))
    assert any("Order of choice" in note for note in outcome.notes)


class Choosy(Asked):
    """Turns requests away by its decode choice."""

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return REFUSED


def test_decode_may_turn_a_request_away_at_its_arrival_only(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0], input_tokens=[10], output_tokens=[1])
    service = Service(pools(2, 3), Choosy(), FLAT, order="decode_first")
    assert serve_all(table, [service], wire(MS)).requests["status"].tolist() == [2]
    with pytest.raises(PolicyError, match="chose decode instance -2 of 3 for request 0"):
        serve_all(table, [Service(pools(2, 3), Choosy(), FLAT)], wire(MS))


class Ranking(Asked):
    """Gives long prompts a priority."""

    def priority(self, request: Request, view: View) -> int:
        return 7 if request.input_tokens > 100 else 1


def test_a_policy_may_give_priorities_which_the_table_shows(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0, 0], input_tokens=[10, 500], output_tokens=[1, 1])
    outcome = serve_all(table, [Service(pools(2, 3), Ranking(), FLAT)], wire(MS))
    assert outcome.requests["priority"].tolist() == [1, 7]


def test_blocks_are_told_to_policies_that_look_at_caches_only(
    pools: Callable[..., Deployment],
) -> None:
    class Cached(Asked):
        sees: ClassVar[frozenset[Sight]] = frozenset({"cache"})
        seen: Request

        def prefill(self, request: Request, view: View) -> int:
            self.seen = request
            return 0

    prefix = Prefix(np.array([0, 2]), np.array([11, 12]), 512)
    chosen = Cached()
    Router(Service(pools(2, 3), chosen, FLAT), ledger(), prefix).place(0, View.idle(FLAT))
    assert (list(chosen.seen.blocks), chosen.seen.block_tokens) == ([11, 12], 512)
