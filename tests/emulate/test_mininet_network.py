"""A fabric becomes a Mininet network, and nothing of it is left, however the run ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulate.mininet.clean import clean
from emulate.mininet.error import EmulationError
from emulate.mininet.name import interface_name
from emulate.mininet.namespace import inside, namespace_file
from emulate.mininet.network import INTERFACE_MTU, Network, network, refuse_size
from emulate.mininet.offload import offloads, offloads_off
from emulate.mininet.process import marked
from emulate.mininet.program import call
from emulate.mininet.support import may_network
from topo.family.clos import FatTree, LeafSpine, fat_tree, leaf_spine

_MISSING = may_network()

root = [
    pytest.mark.root,
    pytest.mark.skipif(_MISSING is not None, reason=f"no network here: {_MISSING}"),
]


def _links() -> set[str]:
    return {link["ifname"] for link in json.loads(call("ip", "-json", "link"))}


@pytest.fixture(name="small", scope="module")
def _small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    fabric = leaf_spine(LeafSpine(hosts=4, leaves=2, spines=2))
    with network(fabric, what="a test", base=tmp_path_factory.mktemp("run")) as made:
        yield made


class TestNetwork:
    pytestmark = root

    def test_every_port_is_an_interface_with_its_alias_in_its_namespace(
        self, small: Network
    ) -> None:
        fabric = small.fabric
        for node in small.nodes:
            with inside(node.namespace):
                told = json.loads(call("ip", "-json", "link"))
            found = {link["ifname"]: link for link in told if link["ifname"] != "lo"}
            own = [port for port in small.ports if port.node == node.index]
            assert set(found) == {port.interface for port in own}
            for port in own:
                link = found[port.interface]
                assert link["ifalias"] == fabric.port_name(port.port)
                assert link["address"] == port.mac
                assert link["mtu"] == INTERFACE_MTU

    def test_nothing_lies_among_the_machines_own_interfaces(self, small: Network) -> None:
        assert not {name for name in _links() if name.startswith(small.record.prefix)}

    def test_offloads_are_off(self, small: Network) -> None:
        for port in small.ports:
            with inside(small.namespace(port.node)):
                assert offloads(port.interface) == []

    def test_a_cable_joins_the_two_ports_of_its_link(self, small: Network) -> None:
        ports = small.fabric.ports
        between = [
            int(ports.first[link.a]) + link.a_port
            for link in small.fabric.links
            if small.nodes[link.a].kind == small.nodes[link.b].kind == "switch"
        ]
        port = small.ports[between[0]]
        far = small.ports[int(ports.reverse[port.port])]
        with inside(small.namespace(port.node)):
            call("ip", "link", "set", port.interface, "down")
        with inside(small.namespace(far.node)):
            (link,) = json.loads(call("ip", "-json", "link", "show", far.interface))
            assert "NO-CARRIER" in link["flags"]
        with inside(small.namespace(port.node)):
            call("ip", "link", "set", port.interface, "up")

    def test_mininet_knows_hosts_switches_and_links(self, small: Network) -> None:
        assert [h.name for h in small.net.hosts] == [n.name for n in small.fabric.hosts]
        assert [s.name for s in small.net.switches] == [n.name for n in small.fabric.switches]
        first = small.fabric.hosts[0].name
        assert small.net[first].cmd("echo $((6 * 7))").strip() == "42"

    def test_neighbours_are_known_without_asking(self, small: Network) -> None:
        node = small.nodes[small.fabric.hosts[0].index]
        with inside(node.namespace):
            told = json.loads(call("ip", "-json", "neigh"))
        others = {n.ip for n in small.nodes if n.kind == "host" and n.index != node.index}
        assert {row["dst"] for row in told if row["state"] == ["PERMANENT"]} == others

    def test_a_hosts_kernel_does_not_answer_frames_of_the_nic(self, small: Network) -> None:
        import socket

        node = small.nodes[small.fabric.hosts[0].index]
        with inside(node.namespace):
            probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with probe:
            probe.connect((node.ip, 4791))
            probe.send(b"x")
            time.sleep(0.05)
            probe.send(b"x")  # would raise ConnectionRefusedError on an answer
            probe.connect((node.ip, 4792))
            probe.send(b"x")
            time.sleep(0.05)
            with pytest.raises(ConnectionRefusedError):
                probe.send(b"x")


class TestEnd:
    pytestmark = root

    def test_nothing_is_left_after_an_error(self, tmp_path: Path) -> None:
        before = _links()

        def run() -> None:
            with network(leaf_spine(LeafSpine(hosts=2)), what="a test", base=tmp_path) as made:
                seen.append(made.record.prefix)
                raise RuntimeError("broken")

        seen: list[str] = []
        with pytest.raises(RuntimeError, match="broken"):
            run()
        assert marked(seen[0]) == []
        assert _links() == before
        assert list(tmp_path.iterdir()) == []

    def test_kill_9_and_clean_leave_nothing_and_a_foreign_namespace_intact(
        self, tmp_path: Path
    ) -> None:
        foreign = f"kvtest-{os.getpid()}"
        call("ip", "netns", "add", foreign)
        try:
            call("ip", "-n", foreign, "link", "add", "mine0", "type", "veth", "peer", "mine1")
            code = (
                "import os, sys, time; from pathlib import Path;"
                "from topo.family.clos import LeafSpine, leaf_spine;"
                "from emulate.mininet.network import network;"
                "made = network(leaf_spine(LeafSpine(hosts=4)), what='x', base=Path(sys.argv[1]));"
                "n = made.__enter__(); n.net['h0'].cmd('sleep 1000 &');"
                "n.net['h0'].cmd('setsid sleep 1000 &');"
                "print(n.record.prefix, flush=True); time.sleep(1000)"
            )
            before = _links()
            with subprocess.Popen(
                [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
            ) as run:
                assert run.stdout is not None
                prefix = run.stdout.readline().strip()
                spaces = {_namespace(Path(f"/proc/{pid}")) for pid in marked(prefix)}
                assert len(spaces) > 4
                run.send_signal(signal.SIGKILL)
            (cleaned,), running = clean(tmp_path)
            assert (cleaned.prefix, running) == (prefix, [])
            assert marked(prefix) == []
            left = {_namespace(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
            assert not left & spaces
            assert _links() == before
            assert list(tmp_path.iterdir()) == []
            with inside(namespace_file(foreign)):
                assert {"mine0", "mine1"} <= _links()
        finally:
            call("ip", "netns", "delete", foreign)

    def test_the_next_run_removes_what_a_killed_one_left(self, tmp_path: Path) -> None:
        (tmp_path / "kv0bad").mkdir()
        with network(leaf_spine(LeafSpine(hosts=2)), what="a test", base=tmp_path) as made:
            assert [p.name for p in tmp_path.iterdir()] == [made.record.prefix]

    def test_an_interface_of_the_run_in_this_namespace_goes_and_others_stay(
        self, tmp_path: Path
    ) -> None:
        folder = tmp_path / "kv0bad"
        folder.mkdir()
        mine, other = interface_name("kv0bad", "a"), f"kvx{os.getpid() % 10**6}"
        call("ip", "link", "add", mine, "type", "veth", "peer", interface_name("kv0bad", "b"))
        call("ip", "link", "add", other, "type", "veth", "peer", f"{other}p")
        try:
            (cleaned,), _ = clean(tmp_path)
            assert mine in cleaned.interfaces
            assert mine not in _links()
            assert {other, f"{other}p"} <= _links()
        finally:
            call("ip", "link", "delete", other)


class TestOffload:
    pytestmark = root

    def test_what_is_on_is_found_and_turned_off(self) -> None:
        name = f"kvo{os.getpid() % 10**6}"
        call("ip", "link", "add", name, "type", "veth", "peer", f"{name}p")
        try:
            assert "tx" in offloads(name)
            offloads_off([name])
            assert offloads(name) == []
        finally:
            call("ip", "link", "delete", name)

    def test_an_interface_that_is_not_there_is_told(self) -> None:
        with pytest.raises(EmulationError, match="interface nothere: offload"):
            offloads("nothere")


def test_more_than_one_machine_carries_is_refused() -> None:
    refuse_size(fat_tree(FatTree(k=4)))
    with pytest.raises(EmulationError, match=r"45 switches and 54 hosts; .* at most 40 and 64"):
        refuse_size(fat_tree(FatTree(k=6)))


@pytest.mark.parametrize("name", ["nothere", "/proc/none", "999999999"])
def test_an_unknown_namespace_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(EmulationError, match="no such namespace; write a process number") as caught:
        namespace_file(name)
    assert "\n" not in str(caught.value)


def _namespace(process: Path) -> str:
    try:
        return str((process / "ns" / "net").readlink())
    except OSError:
        return ""
