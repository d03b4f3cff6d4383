"""Each key that is compared is told of on its own, by alternatives that differ in it alone."""

from collections.abc import Callable

from analysis.factor import Factor, factors
from analysis.record import StudyManifest

Ask = Callable[..., StudyManifest]


def found(ask: Ask, varied: dict[str, dict[str, str]]) -> dict[str, Factor]:
    study = ask(fabrics=list(varied), varied=varied)
    return {one.key: one for one in factors(study.fabrics, study)}


def test_labels_with_the_same_rest_differ_in_one_key_alone(make_question: Ask) -> None:
    varied = {
        f"tree {nic} {ecn}": {"fabric": "tree", "fabric.nic": nic, "network.discipline.ecn": ecn}
        for nic in ("400G", "100G")
        for ecn in ("ecn", "no ecn")
    }
    held = found(make_question, varied)
    assert list(held) == ["fabric.nic", "network.discipline.ecn"]
    nic = held["fabric.nic"]
    assert nic.value["tree 100G ecn"] == "100G"
    assert nic.rest["tree 100G ecn"] == nic.rest["tree 400G ecn"] != nic.rest["tree 100G no ecn"]


def test_a_fabric_whose_own_label_changes_with_another_key_is_one_fabric(
    make_question: Ask,
) -> None:
    own = {("a", "400G"): "a 3:1", ("a", "100G"): "a 2:1", ("b", "400G"): "b", ("b", "100G"): "b"}
    varied = {
        f"{name} {nic}": {"fabric": name, "fabric.nic": nic} for (_, nic), name in own.items()
    }
    held = found(make_question, varied)
    assert held["fabric"].value["a 2:1 100G"] == "a 3:1 or a 2:1"
    nic = held["fabric.nic"]
    assert nic.rest["a 3:1 400G"] == nic.rest["a 2:1 100G"] != nic.rest["b 400G"]
    alone = {label: texts for label, texts in varied.items() if texts["fabric"] != "b"}
    assert list(found(make_question, alone)) == ["fabric.nic"]


def test_what_a_design_meets_is_no_factor_of_it(make_question: Ask) -> None:
    varied = {
        f"{f} {x}": {"fabric": f, "faults": x} for f in ("a", "b") for x in ("none", "leaf0 down")
    }
    (fabric,) = found(make_question, varied).values()
    assert fabric.key == "fabric"
    assert fabric.rest["a none"] == fabric.rest["b none"] != fabric.rest["b leaf0 down"]
