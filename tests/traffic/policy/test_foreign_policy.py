"""Policies of users: what they may leave out, and what becomes of those that misbehave."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import Struct

from topo.error import KvfabricError
from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.policy import foreign as brought
from traffic.policy import registry
from traffic.policy.choice import NOBODY, Policy, PolicyError, Request, View
from traffic.policy.foreign import foreign, imported
from traffic.policy.patience import TooLong, within
from traffic.policy.registry import check_settings, policy
from traffic.request import request_table
from traffic.serving.router import Service
from traffic.serving.run import serve_all

FLAT = np.full((3, 4), 4, np.int32)
ASKED = Request(17, 550, 150, 1000)


def made(given: type, limit_s: float = 10.0, **settings: Any) -> Policy:
    kind = foreign(given, "mine", limit_s)
    return kind(kind.settings(**settings), FLAT, 0)


class Nearest:
    """Two lines are enough."""

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return view.hops[prefill].argmin()


def test_one_method_is_enough_and_the_other_side_goes_to_the_least_loaded() -> None:
    chosen = made(Nearest)
    view = View.idle(np.array([[4, 4, 2, 4]] * 3, np.int32))
    view.prefill_requests[:] = [3, 1, 2]
    assert chosen.prefill(ASKED, view) == 1
    answer = chosen.decode(ASKED, 1, view)
    assert (answer, type(answer)) == (2, int)
    assert (chosen.name, chosen.pairs(FLAT).all()) == ("mine", True)
    assert not chosen.pairs(np.array([[-1]], np.int32)).any()
    assert "test_foreign_policy:Nearest" in chosen.source
    assert not hasattr(chosen, "pair")
    assert not hasattr(chosen, "counters")


class Tuned:
    """Its parameters are those of its constructor."""

    def __init__(self, slack: int = 2, *, weight: float, seed: int, hops: Any) -> None:
        self.kept = (slack, weight, seed, hops.shape)

    def prefill(self, request: Request, view: View) -> int:
        return 0

    def counters(self) -> dict[str, int]:
        return {"asked": np.int64(3)}


def test_parameters_are_keyword_arguments_which_are_checked_as_those_of_any_policy() -> None:
    kind = foreign(Tuned, "mine")
    assert kind.settings.__struct_fields__ == ("slack", "weight")
    chosen = made(Tuned, weight=1.5)
    assert chosen._user.kept == (2, 1.5, 0, (3, 4))  # type: ignore[attr-defined]
    assert chosen.counters() == {"asked": 3}  # type: ignore[attr-defined]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module that can be imported by the name that comes back."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def write(text: str) -> str:
        name = f"mine{len(names)}_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_an_import_path_names_a_policy(module: Callable[[str], str]) -> None:
    name = module(
        "class Last:\n"
        "    def __init__(self, back: int = 1):\n"
        "        self.back = back\n"
        "    def prefill(self, request, view):\n"
        "        return len(view.prefill_requests) - self.back\n"
    )
    assert policy(f"{name}:Last", FLAT).prefill(ASKED, View.idle(FLAT)) == 2
    chosen = policy(f"{name}:Last", FLAT, settings={"back": 3})
    assert chosen.prefill(ASKED, View.idle(FLAT)) == 0
    with pytest.raises(PolicyError, match="unknown field `front`; known settings: back"):
        check_settings(f"{name}:Last", {"front": 1})
    with pytest.raises(PolicyError, match=r"Expected `int`, got `str`.*known settings: back"):
        check_settings(f"{name}:Last", {"back": "one"})


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module_here:Mine", "no module 'no_such_module_here'; put it beside the scenario"),
        ("os:", "'os:': not an import path; write module:Class"),
        ("../mine:Mine", "not an import path"),
        ("json:Nothing", "module json has no Nothing"),
        ("json:loads", "is no class"),
        ("json:JSONEncoder", "has no method that chooses"),
    ],
)
def test_a_path_without_a_policy_is_refused(path: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        imported(path)


def test_a_module_that_cannot_be_imported_is_told_with_its_line(
    module: Callable[[str], str],
) -> None:
    name = module("x = 1\ny = x / 0\n")
    with pytest.raises(
        PolicyError, match=rf"ZeroDivisionError: division by zero, at .*{name}.py:2"
    ):
        imported(f"{name}:Mine")


def test_a_module_that_never_ends_is_told(module: Callable[[str], str]) -> None:
    name = module("import time\ntime.sleep(60)\n")
    with pytest.raises(PolicyError, match=f"importing {name} did not end within 0.05 s"):
        imported(f"{name}:Mine", 0.05)


class Wild:
    """Answers what it is told to."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def decode(self, request: Request, prefill: int, view: View) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer", [None, 2.0, "0", True, np.True_, np.float64(1), [1], (0, 1), np.array([1, 2])]
)
def test_nonsense_is_told_with_the_policy_and_the_request(answer: Any) -> None:
    with pytest.raises(
        PolicyError, match=r"policy mine: decode\(\) answered .* for request 17; answer the number"
    ):
        made(Wild, answer=answer).decode(ASKED, 0, View.idle(FLAT))


@pytest.mark.parametrize("answer", [1, np.int32(1), np.uint8(1), np.array(1), NOBODY])
def test_whole_numbers_of_any_kind_are_taken(answer: Any) -> None:
    assert made(Wild, answer=answer).decode(ASKED, 0, View.idle(FLAT)) == int(answer)


def test_an_instance_that_is_not_there_is_told_with_the_request(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0, 5], input_tokens=[9, 9], output_tokens=[1, 1])
    service = Service(pools(3, 4), made(Wild, answer=4), FLAT)
    with pytest.raises(
        PolicyError, match="policy mine: chose decode instance 4 of 4 for request 0; answer 0 to 3"
    ):
        serve_all(table, [service], wire())


class Raising:
    def prefill(self, request: Request, view: View) -> int:
        raise KeyError("no such\nthing")


class Leaving:
    def prefill(self, request: Request, view: View) -> int:
        sys.exit(3)


class Writing:
    def prefill(self, request: Request, view: View) -> int:
        view.prefill_requests[0] += 1
        return 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Raising, r"prefill\(\) raised KeyError: 'no such\\nthing' for request 17, at .*\.py:\d+"),
        (Leaving, r"prefill\(\) raised SystemExit: 3 for request 17"),
        (Writing, r"prefill\(\) raised ValueError: .*read-only for request 17"),
    ],
)
def test_a_policy_that_raises_is_told_with_its_line(given: type, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as told:
        made(given).prefill(ASKED, View.idle(FLAT))
    assert "\n" not in str(told.value)
    assert isinstance(told.value, KvfabricError)


class Loop:
    def prefill(self, request: Request, view: View) -> int:
        while True:
            pass


class Sleep:
    def prefill(self, request: Request, view: View) -> int:
        time.sleep(60)
        return 0


class Deaf:
    """Catches what it can, once."""

    def prefill(self, request: Request, view: View) -> int:
        try:
            time.sleep(60)
        except BaseException:
            time.sleep(60)
        return 0


class Slow:
    def __init__(self) -> None:
        time.sleep(60)

    def prefill(self, request: Request, view: View) -> int:
        return 0


@pytest.mark.parametrize("given", [Loop, Sleep, Deaf])
def test_a_policy_that_hangs_is_ended_and_told(given: type) -> None:
    began = time.monotonic()
    with pytest.raises(
        PolicyError, match=r"policy mine: prefill\(\) did not answer within 0.05 s for request 17"
    ):
        made(given, 0.05).prefill(ASKED, View.idle(FLAT))
    assert time.monotonic() - began < 5


def test_a_constructor_that_hangs_is_ended_too() -> None:
    with pytest.raises(PolicyError, match=r"__init__\(\) did not answer within 0.05 s"):
        made(Slow, 0.05)


def test_code_that_catches_every_end_takes_its_process_with_it() -> None:
    code = (
        "import time\n"
        "from traffic.policy import patience\n"
        "patience._AGAIN_S = 0.02\n"
        "def deaf():\n"
        "    while True:\n"
        "        try:\n"
        "            time.sleep(60)\n"
        "        except BaseException: pass\n"
        "patience.within(0.02, lambda: 'policy deaf hangs', deaf)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (2, "kvfabric: policy deaf hangs\n")


def test_the_limit_leaves_nothing_behind_and_is_not_kept_in_other_threads() -> None:
    with pytest.raises(TooLong):
        within(0.01, str, lambda: time.sleep(60))
    time.sleep(0.05)
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(within(0.01, str, lambda: 5)))
    thread.start()
    thread.join()
    assert answers == [5]


class Scored:
    def scores(self, request: Request, view: View) -> Any:
        return [[3, 2, 9, 9], [9, 1, 9, 9], [9, 9, 9, 9]]


class Paired:
    def pair(self, request: Request, view: View) -> Any:
        return 2, np.int64(3)


class Split:
    def pair(self, request: Request, view: View) -> Any:
        return 1


class Unknown:
    def scores(self, request: Request, view: View) -> Any:
        return np.full((3, 4), np.nan)


def test_joint_choices_of_users_are_taken_and_checked(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    def served(given: type) -> list[tuple[int, int]]:
        table = request_table(arrival_ps=[0], input_tokens=[9], output_tokens=[1])
        service = Service(pools(3, 4), made(given), FLAT, order="joint")
        found = serve_all(table, [service], wire()).requests
        return list(zip(found["prefill"].tolist(), found["decode"].tolist(), strict=True))

    assert served(Scored) == [(1, 1)]
    assert served(Paired) == [(2, 3)]
    with pytest.raises(PolicyError, match=r"pair\(\) answered 1 for request 0; answer \(prefill"):
        served(Split)
    with pytest.raises(PolicyError, match=r"scores\(\) answered 'NaN' for request 0"):
        served(Unknown)


class Odd:
    sees = ("load", "weather")

    def prefill(self, request: Request, view: View) -> int:
        return 0


class Fixed:
    def __init__(self, a: int, /) -> None: ...

    def prefill(self, request: Request, view: View) -> int:
        return 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Odd, "sees load, weather; write of load, cache, topology, network"),
        (Fixed, "constructor argument a takes no keyword"),
    ],
)
def test_a_class_that_cannot_be_a_policy_is_refused(given: type, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        foreign(given, "mine")


def test_a_whole_policy_of_a_user_keeps_its_own_settings() -> None:
    class Own(Struct, frozen=True):
        at: int = 2

    class Whole:
        settings = Own

        def __init__(self, settings: Own, hops: Any, seed: int) -> None:
            self.at = settings.at

        def prefill(self, request: Request, view: View) -> int:
            return self.at

    assert made(Whole, at=1).prefill(ASKED, View.idle(FLAT)) == 1


def test_installed_packages_offer_policies_by_name(
    monkeypatch: pytest.MonkeyPatch, module: Callable[[str], str]
) -> None:
    name = module("class Mine:\n    def prefill(self, request, view):\n        return 1\n")
    offers = [EntryPoint("nearest", f"{name}:Mine", brought.GROUP)]
    monkeypatch.setattr(brought, "entry_points", lambda group: offers)
    assert policy("nearest", FLAT).prefill(ASKED, View.idle(FLAT)) == 1
    assert registry.kind_of("nearest").name == "nearest"
    with pytest.raises(PolicyError, match="'neares': not known; did you mean nearest"):
        registry.kind_of("neares")
    offers.append(EntryPoint("nearest", "other:Mine", brought.GROUP))
    with pytest.raises(PolicyError, match="offered by two installed packages"):
        registry.kind_of("nearest")
    offers[:] = [EntryPoint("gone", "no_such_module_here:Mine", brought.GROUP)]
    with pytest.raises(PolicyError, match="of an installed package cannot be imported"):
        registry.kind_of("gone")
