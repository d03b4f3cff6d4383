"""A pipe or a device in the place of a file is refused at once, not waited for."""

import os
from pathlib import Path

import pytest

from topo.format.registry import read_fabric
from topo.format.text import FormatError
from topo.price import PriceError, prices


@pytest.mark.parametrize("name", ["a.json", "a.graphml", "a.clab.yml", "a.dot", "a.txt", "a.csv"])
def test_a_pipe_is_not_read_as_a_fabric(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(FormatError, match="not a file"):
        read_fabric(tmp_path / name)


def test_a_pipe_is_not_read_as_prices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "price.csv")
    with pytest.raises(PriceError, match="not a file"):
        prices(tmp_path / "price.csv")
