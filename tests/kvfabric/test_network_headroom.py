"""A scenario names a rule for the headroom, or says its size, as the refusal of others promises."""

import pytest

from emulate.discipline import DisciplineError
from kvfabric.network import discipline_of
from kvfabric.scenario import DisciplinePart
from topo.error import KvfabricError


@pytest.mark.parametrize(
    ("text", "headroom"), [("mlx5", "mlx5"), ("40KiB", 40_960), ("40000B", 40_000), ("0B", 0)]
)
def test_a_headroom_is_a_rule_or_a_size(text, headroom):
    assert discipline_of(DisciplinePart(headroom=text)).headroom == headroom


def test_what_is_neither_is_refused():
    with pytest.raises(DisciplineError, match="no such rule"):
        discipline_of(DisciplinePart(headroom="much"))
    with pytest.raises(KvfabricError, match="unknown unit"):
        discipline_of(DisciplinePart(headroom="40XB"))
