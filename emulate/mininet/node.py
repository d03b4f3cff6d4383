"""The Mininet classes of a run: hosts, switches and links that are already there.

Interfaces are made all at once by `emulate.mininet.network`, so that these classes only tell
Mininet of them: its command line, ``ping`` and ``tcpdump`` work as on any Mininet network. Every
shell carries the run's mark. Mininet's own limits of the system are not touched.
"""

from subprocess import Popen
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node, Switch

from emulate.mininet.process import marked_environment


class FabricHost(Node):  # type: ignore[misc]
    """A host in a namespace of its own; ``prefix`` is the run's."""

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        return _marked(self, cmd, params)


class FabricSwitch(Switch):  # type: ignore[misc]
    """A switch in a namespace of its own; the switch process of the run forwards for it."""

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, **{**params, "inNamespace": True})

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        return _marked(self, cmd, params)

    def start(self, controllers: object) -> None:
        """Nothing to start: one process forwards for all switches, and no controller is asked."""


class FabricIntf(Intf):  # type: ignore[misc]
    """An interface that needs no configuration."""

    def config(self, *_: Any, **__: Any) -> Any:
        """Configured together with all others."""
        return {}


class FabricLink(Link):  # type: ignore[misc]
    """A veth pair that is already there."""

    @classmethod
    def makeIntfPair(cls, *_: object, **__: object) -> None:  # noqa: N802
        """Made before."""


class FabricNet(Mininet):  # type: ignore[misc]
    """A Mininet that leaves the system's limits as they are."""

    @classmethod
    def init(cls) -> None:
        """Nothing: Mininet would raise limits of the whole system."""


def _marked(node: Node, cmd: list[str], params: dict[str, Any]) -> Any:
    environment = marked_environment(node.params["prefix"])
    return Popen(cmd, env=environment, **params)  # noqa: S603
