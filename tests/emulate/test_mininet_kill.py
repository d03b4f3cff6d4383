"""A run on real frames that is killed outright leaves what `clean` removes, and nothing else."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from emulate.mininet.clean import clean
from emulate.mininet.place import place
from emulate.mininet.process import marked
from emulate.mininet.program import call
from emulate.mininet.support import may_emulate

_MISSING = may_emulate()

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(_MISSING is not None, reason=f"no real frames here: {_MISSING}"),
]


def test_kill_9_of_a_run_and_clean_leave_nothing(tmp_path: Path) -> None:
    scenario = Path(__file__).parents[2] / "scenarios" / "real-frames.yaml"
    code = (
        "import sys; from pathlib import Path; import emulate.mininet.record as r;"
        "import kvfabric.crosscheck as c; from kvfabric.load import load;"
        "from kvfabric.compare import jobs_of;"
        "job = jobs_of(load(sys.argv[1], compare=False))[0];"
        "c.on_frames(c.rehearsed(job), name='x', dilation=20000, most_s=1e4, memory=False,"
        " tell=lambda share, note: print(share, note, flush=True), base=Path(sys.argv[2]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(scenario), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        while not run.stdout.readline().startswith("0.1"):
            assert run.poll() is None
        (folder,) = tmp_path.iterdir()
        assert place("leaf0:3", base=tmp_path).label == "leaf0:3"
        pids = marked(folder.name)
        assert len(pids) == 8 + 4 + 2
        run.send_signal(signal.SIGKILL)
    (cleaned,), running = clean(tmp_path)
    assert (cleaned.prefix, running) == (folder.name, [])
    assert marked(folder.name) == []
    assert list(tmp_path.iterdir()) == []
    links = json.loads(call("ip", "-json", "link"))
    assert not [link for link in links if link["ifname"].startswith(folder.name)]
