"""What is true of the instances of a pool, and what their router knows of it, probe by probe.

Health checks go out at whole multiples of their interval. They are followed only while they can
change the router's mind: after an instance went down or came up, until the router knows. With
`failures` f, interval I and timeout T, an instance that dies at t is out at the first probe at or
after t, plus (f - 1) I + T. It is back at the first probe at or after its discovery, plus
(successes - 1) I; without health checks at its discovery.
"""

from collections.abc import Callable, Sequence
from functools import partial

from traffic.failure.outage import Outage
from traffic.failure.resilience import Resilience
from traffic.failure.spell import Spell
from traffic.loop import Loop


class Watch:
    """The instances of one pool; ``changed`` is told the instance whose use may have changed."""

    def __init__(
        self,
        loop: Loop,
        rules: Resilience,
        count: int,
        outages: Sequence[Outage],
        changed: Callable[[int, int], None],
    ) -> None:
        standby = {outage.instance for outage in outages if outage.kind == "join"}
        self.up = [number not in standby for number in range(count)]
        """Which instances work."""
        self.spells: list[Spell] = []
        self._loop = loop
        self._rules = rules
        self._changed = changed
        self._healthy = list(self.up)
        self._drained = [False] * count
        self._found_ps = [0] * count  # when the router knew of the present process
        self._failures = [0] * count
        self._successes = [0] * count
        self._probed = [False] * count
        self._spell: list[Spell | None] = [None] * count

    def used(self, instance: int) -> bool:
        """Whether the router sends to the instance, as far as it knows."""
        return self._healthy[instance] and not self._drained[instance]

    def starts(self, outage: Outage, now: int) -> None:
        """An outage begins; what it means for those inside is not told here."""
        instance = outage.instance
        spell = self._spell[instance] = Spell(outage)
        self.spells.append(spell)
        if not self._healthy[instance]:
            spell.unseen_ps = now
        load_ps = self._rules.load_ps
        if outage.kind == "fail":
            self.up[instance] = False
            self._follow(instance, now)
        elif outage.kind == "drain":
            self._drained[instance] = True
            spell.unseen_ps = now
            self._changed(instance, now)
        start = now if outage.kind == "join" else outage.until_ps
        if start is not None:
            self._loop.call(start + load_ps, partial(self._serves, instance))

    def _serves(self, instance: int, now: int) -> None:
        """The model is loaded; the router hears of it later."""
        self.up[instance] = True
        spell = self._spell[instance]
        assert spell is not None
        spell.served_ps = now
        self._found_ps[instance] = now + self._rules.discovery_ps
        self._loop.call(self._found_ps[instance], partial(self._found, instance, spell))

    def _found(self, instance: int, spell: Spell, now: int) -> None:
        if self._spell[instance] is not spell:
            return
        self._drained[instance] = False
        if not self._rules.health.interval_ps:
            self._healthy[instance] = True
        if self._healthy[instance]:
            self._seen(instance, now)
        self._follow(instance, now)

    def _seen(self, instance: int, now: int) -> None:
        spell = self._spell[instance]
        if spell is not None and self.used(instance):
            spell.seen_ps = now
        self._changed(instance, now)

    def _follow(self, instance: int, now: int) -> None:
        """Look at the probes of an instance from now on, until they say nothing new."""
        interval = self._rules.health.interval_ps
        if interval and not self._probed[instance]:
            self._probed[instance] = True
            self._loop.call(-(-now // interval) * interval, partial(self._probe, instance))

    def _probe(self, instance: int, now: int) -> None:
        health = self._rules.health
        if self.up[instance]:
            self._failures[instance] = 0
            if not self._healthy[instance] and now >= self._found_ps[instance]:
                self._successes[instance] += 1
                if self._successes[instance] >= health.successes:
                    self._healthy[instance] = True
                    self._seen(instance, now)
        else:
            self._successes[instance] = 0
            self._loop.call(now + health.timeout_ps, partial(self._unanswered, instance))
        if self.up[instance] == self._healthy[instance]:
            self._probed[instance] = False
            return
        self._loop.call(now + health.interval_ps, partial(self._probe, instance))

    def _unanswered(self, instance: int, now: int) -> None:
        self._failures[instance] += 1
        if self._failures[instance] < self._rules.health.failures or not self._healthy[instance]:
            return
        self._healthy[instance] = False
        self._failures[instance] = 0
        self._successes[instance] = 0
        spell = self._spell[instance]
        if spell is not None:
            spell.unseen_ps, spell.seen_ps = now, -1
        self._changed(instance, now)
