"""What a long command is at: nothing for two seconds, then a line, and none left behind."""

import time

from kvfabric import progress
from kvfabric.progress import stages, under


def test_a_short_command_says_nothing(capsys):
    with stages("topo show") as tell:
        tell("routes")
    assert capsys.readouterr().err == ""


def test_a_long_command_says_what_it_is_at(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_S", 0.01)
    with stages("topo show") as tell:
        under(tell, "torus")("routes")
        time.sleep(0.2)
    assert capsys.readouterr().err == "topo show: torus: routes, 0 s so far\n"


def test_a_failing_command_stops_talking(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_S", 0.05)
    try:
        with stages("topo show"):
            raise ValueError
    except ValueError:
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
