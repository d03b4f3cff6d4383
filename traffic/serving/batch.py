"""Continuous batching on one instance: who takes part in its steps, in closed form between changes.

Every step gives each member of the batch one token, and may hold chunks of prompts. Members join
and leave only at step boundaries (iteration-level scheduling: Yu et al., Orca, OSDI 2022). While
the membership stays and no prompt is computed, nothing is random and no event is needed for a
token: a *segment* of steps is planned at once. A step with chunks is a segment by itself.

At a boundary, in this order: last tokens leave; computed prompts become members (the end of a
prompt's last chunk is its next token); where memory grows and the next step would not fit, the
latest arrivals are evicted; sequences whose cache has arrived join; evicted caches are swapped in;
prompts are admitted, first come first served, while batch, memory and the step's tokens allow.
"""

from collections.abc import Sequence as Seq
from typing import Final

from topo.unit import PS_PER_S
from traffic.compute.step import Chunk, StepTime
from traffic.model import Model
from traffic.record.occupancy import Occupancy
from traffic.serving.line import Line
from traffic.serving.member import Members, Sequence
from traffic.serving.mode import Serving
from traffic.serving.turn import Turn

ENDLESS: Final = 2**62
"""Memory that is not looked at."""


class Batch:
    """The batch of one instance and the lines before it. Times are integer picoseconds.

    ``capacity_bytes`` is its KV memory; ``priority`` that of every request, where priorities act.
    Where memory is limited, `reserve` it for a sequence before its cache is on the way.
    """

    def __init__(
        self,
        model: Model,
        time: StepTime,
        max_batch: int,
        kv_dtype: str | None = None,
        *,
        capacity_bytes: int = ENDLESS,
        rules: Serving | None = None,
        priority: Seq[int] | None = None,
    ) -> None:
        self._model = model
        self._time = time
        self._most = max_batch
        self._dtype = kv_dtype
        self._capacity = capacity_bytes
        self._rules = rules or Serving()
        self._grows = self._rules.grows
        self._priority = priority
        self._members = Members(model, kv_dtype)
        self._sizes: dict[int, int] = {}  # KV bytes by tokens: lengths come again
        self._reserved = 0  # of all but growing members
        self._ready = Line(priority)
        self._prompts = Line(priority)
        self._swapped = Line(priority)
        self._of: dict[int, Sequence] = {}  # who waits in a line or is being computed
        self._done: dict[int, int] = {}  # tokens computed of the prompts under way
        self._held: dict[int, int] = {}  # tokens of prompts that wait and need not be computed
        self._again: set[int] = set()  # those of the prompts that wait because they were evicted
        self._start_ps = 0
        self._mixed_ps = 0
        self._chunks: list[tuple[int, int]] = []  # (request, tokens) of the present step
        self._waking = False
        self._refused = False  # somebody whose memory was asked for waits
        self._stuck = False  # who is next in a line has a place in the batch and no room
        self.occupancy = Occupancy(capacity_bytes)
        self.steps_to_go = 0
        """Steps from the segment's start to the planned boundary; 0 when idle."""
        self.steps = 0
        """Steps that have ended."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def working(self) -> bool:
        """Whether a step is under way or planned."""
        return self.steps_to_go > 0

    def boundary_ps(self, steps: int) -> int:
        """The end of the given step of the segment, if it goes on so long; 0 is its start."""
        if not steps:
            return self._start_ps
        if self._chunks:
            return self._start_ps + self._mixed_ps
        members = self._members
        read = members.read(steps)
        return self._start_ps + self._time.steps_ps(len(members), members.tokens, read, steps)

    def reserve(self, tokens: int, final: int, now_ps: int) -> tuple[bool, int | None]:
        """Reserve memory for a cache of ``tokens`` that grows to ``final``, if it fits.

        The second answer is the boundary of the present segment, if memory now ends it earlier.
        Nobody passes those who were evicted.
        """
        if self._again or self._swapped:
            return self._refuse(now_ps)
        step, held = self._held_at(now_ps)
        need = self._bytes(tokens + 1 if self._grows else final)
        if held + need > self._capacity:
            return self._refuse(now_ps)
        self._reserved += need
        self.occupancy.change(now_ps, held, held + need)
        if self._refused:
            self._refused = False
            self.occupancy.lack(now_ps, lacking=self._stuck)
        if not step or self._chunks:
            return True, None
        fits = self._members.fit(self._capacity - self._reserved, step, self.steps_to_go)
        if fits == self.steps_to_go:
            return True, None
        self.steps_to_go = fits
        return True, self.boundary_ps(fits)

    def _refuse(self, now_ps: int) -> tuple[bool, None]:
        self._refused = True
        self.occupancy.lack(now_ps, lacking=True)
        return False, None

    def forgo(self, now_ps: int) -> None:
        """Nobody waits any more whom `reserve` refused."""
        self._refused = False
        self.occupancy.lack(now_ps, lacking=self._stuck)

    def cancel(self, tokens: int, final: int, now_ps: int) -> int | None:
        """Give back what `reserve` took with the same numbers, the cache never having come.

        The answer is the boundary at which somebody who waits for memory may enter, if it is new.
        """
        _, held = self._held_at(now_ps)
        given = self._bytes(tokens + 1 if self._grows else final)
        self._reserved -= given
        self.occupancy.change(now_ps, held, held - given)
        if not self._prompts and not self._swapped:
            return None
        return self._wake(now_ps, now_ps + 1)

    def offer(self, sequence: Sequence, now_ps: int) -> int | None:
        """Queue a sequence whose cache is here; the boundary at which it may join, if that is new.

        None when a boundary is planned that comes no later, or when the batch is full and the
        sequence waits for a member to leave.
        """
        self._of[sequence.request] = sequence
        self._ready.add(sequence.request)
        return self._wake(now_ps, now_ps)

    def offer_prompt(self, sequence: Sequence, now_ps: int, held: int = 0) -> int | None:
        """Queue a prompt to be computed here; the boundary at which it may start, if new.

        The first ``held`` of its tokens, not all, need not be computed, unless it is evicted later.
        Prompts arrive after what happens at the same instant: a boundary now is too early.
        """
        self._of[sequence.request] = sequence
        if held:
            self._held[sequence.request] = held
        self._prompts.add(sequence.request)
        if self.working:
            if self._prompts.first != sequence.request or self._taking_part >= self._most:
                return None
            if not self._fits(sequence):
                self._stuck = True
                self.occupancy.lack(now_ps, lacking=True)
                return None
        return self._wake(now_ps, now_ps + 1)

    def _wake(self, now_ps: int, least_ps: int) -> int | None:
        """The boundary at or after ``least_ps``, if it is new; now when nothing is under way."""
        if not self.steps_to_go:
            if self._waking:
                return None
            self._waking = True
            return now_ps
        if self._chunks or len(self._members) >= self._most:
            return None
        step = self._step_at(least_ps)
        if step == self.steps_to_go:
            return None
        self.steps_to_go = step
        return self.boundary_ps(step)

    def _step_at(self, now_ps: int) -> int:
        """The step of the segment that is under way, or ends, now."""
        low, high = 1, self.steps_to_go
        while low < high:
            middle = (low + high) // 2
            if self.boundary_ps(middle) < now_ps:
                low = middle + 1
            else:
                high = middle
        return low

    def next_boundary(self, at_ps: int) -> int:
        """The first step boundary at or after a time: that time itself when nothing is planned."""
        if not self.steps_to_go:
            return at_ps
        return max(at_ps, self.boundary_ps(self._step_at(at_ps)))

    def _held_at(self, now_ps: int) -> tuple[int, int]:
        """The step that this instant is inside of, 0 where none grows, and the bytes held in it."""
        if not (self._grows and len(self._members)):
            return 0, self._reserved
        step = self._step_at(now_ps + 1)
        return step, self._reserved + self._members.held(step)

    def end(self, now_ps: int) -> Occupancy:
        """Count no more: the instance died, or the run ended."""
        self.occupancy.end(now_ps, self._held_at(now_ps)[1])
        return self.occupancy

    def follow(self, dead: "Batch", now_ps: int) -> None:
        """Take over what another one of the same instance, which ends, has counted."""
        self.steps, self.occupancy = dead.steps, dead.end(now_ps)

    def turn(self, now_ps: int) -> Turn:
        """At a planned boundary: change who takes part, and plan the next segment."""
        self._waking = False
        self.steps += self.steps_to_go
        members = self._members
        before = self._reserved
        if self._grows:
            before += members.held(self.steps_to_go)
        left: list[int] = []
        for sequence in members.pass_by(self.steps_to_go):
            left.append(sequence.request)
            self._release(sequence.input_tokens)
        prefilled = self._computed(left) if self._chunks else []
        pause_ps = 0
        evicted: list[int] = []
        if self._grows:
            pause_ps, evicted = self._evict()
        joined = self._join()
        if self._swapped:
            pause_ps += self._swap_in(joined)
        began: list[int] = []
        self._chunks = []
        if self._done or self._prompts:
            began = self._assign()
        self._start_ps = now_ps + pause_ps
        self._plan()
        self._count(now_ps, before, len(evicted))
        return Turn(prefilled, left, evicted, joined, began)

    def _count(self, now_ps: int, before: int, evicted: int) -> None:
        """Note what is held, and whether who is next has a place in the batch and no room."""
        occupancy = self.occupancy
        occupancy.change(now_ps, before, self._held_next())
        occupancy.evictions += evicted
        line = self._swapped or self._prompts
        self._stuck = (
            bool(line) and self._taking_part < self._most and not self._fits(self._of[line.first])
        )
        occupancy.lack(now_ps, lacking=self._stuck or self._refused)

    def _computed(self, left: list[int]) -> list[int]:
        """Count the chunks of the step that ends; whole prompts join, or leave with one token."""
        prefilled: list[int] = []
        for request, tokens in self._chunks:
            self._done[request] += tokens
            sequence = self._of[request]
            if self._done[request] < sequence.input_tokens:
                continue
            del self._done[request], self._of[request]
            prefilled.append(request)
            context, more = sequence.input_tokens + 1, sequence.output_tokens - 1
            if self._grows:
                self._reserved -= self._bytes(context)
            if more > 0:
                self._members.join(Sequence(request, context, more))
            else:
                self._release(sequence.input_tokens + sequence.output_tokens)
                left.append(request)
        return prefilled

    def _release(self, final: int) -> None:
        if not self._grows:
            self._reserved -= self._bytes(final)

    def _evict(self) -> tuple[int, list[int]]:
        """Make room for the next step; the time that copies to the host take, and who had to go."""
        pause_ps = 0
        evicted: list[int] = []
        members = self._members
        while len(members) and self._reserved + members.held(1) > self._capacity:
            victim = max((*members.requests, *self._done, *self._ready.requests), key=self._age)
            evicted.append(victim)
            if victim in self._done:
                del self._done[victim]
                self._reserved -= self._bytes(self._of[victim].input_tokens + 1)
                self._prompts.put_back(victim)
                self._again.add(victim)
                continue
            if victim in self._of:
                self._reserved -= self._bytes(self._of[victim].input_tokens + 1)
                self._ready.drop(victim)
            else:
                self._of[victim] = members.take_out(victim)
            if self._rules.preemption == "swap":
                pause_ps += self._copy_ps(victim)
                self._swapped.put_back(victim)
            else:
                self._prompts.put_back(victim)
                self._again.add(victim)
        return pause_ps, evicted

    def _age(self, request: int) -> tuple[int, int]:
        return (-self._priority[request] if self._priority is not None else 0, request)

    def _join(self) -> list[int]:
        joined: list[int] = []
        while self._ready and self._taking_part < self._most:
            self._enter(self._ready.take(), joined)
        return joined

    @property
    def _taking_part(self) -> int:
        return len(self._members) + len(self._done)

    def _enter(self, request: int, joined: list[int]) -> None:
        sequence = self._of.pop(request)
        if self._grows:
            self._reserved -= self._bytes(sequence.input_tokens + 1)
        self._members.join(sequence)
        joined.append(request)

    def _swap_in(self, joined: list[int]) -> int:
        """Bring caches back from the host while they fit; the time that takes."""
        pause_ps = 0
        while self._swapped and self._taking_part < self._most:
            request = self._swapped.first
            if not self._fits(self._of[request]):
                break
            self._reserved += self._bytes(self._of[request].input_tokens + 1)
            pause_ps += self._copy_ps(request)
            self._enter(self._swapped.take(), joined)
        return pause_ps

    def _held_next(self) -> int:
        return self._reserved + (self._members.held(1) if self._grows else 0)

    def _fits(self, sequence: Sequence) -> bool:
        need = self._bytes(sequence.input_tokens + (1 if self._grows else sequence.output_tokens))
        return self._held_next() + need <= self._capacity

    def _assign(self) -> list[int]:
        """Fill the next step with tokens of prompts; who is computed from now on."""
        budget = self._rules.chunk_tokens - len(self._members)
        for request, done in self._done.items():
            more = min(budget, self._of[request].input_tokens - done)
            if more > 0:
                self._chunks.append((request, more))
                budget -= more
        began: list[int] = []
        while budget > 0 and self._prompts and not self._swapped:
            request = self._prompts.first
            sequence = self._of[request]
            if self._taking_part >= self._most or not self._fits(sequence):
                break
            self._prompts.take()
            self._again.discard(request)
            final = sequence.input_tokens + sequence.output_tokens
            self._reserved += self._bytes(sequence.input_tokens + 1 if self._grows else final)
            done = self._done[request] = self._held.pop(request, 0)
            more = min(budget, sequence.input_tokens - done)
            self._chunks.append((request, more))
            budget -= more
            began.append(request)
        return began

    def _plan(self) -> None:
        members = self._members
        if self._chunks:
            self.steps_to_go = 1
            chunks: list[Chunk] = [(self._done[r], tokens) for r, tokens in self._chunks]
            read = members.read(1)
            self._mixed_ps = self._time.mixed_ps(len(members), members.tokens, read, chunks)
            return
        self.steps_to_go = members.until_leave
        if self._grows and self.steps_to_go:
            self.steps_to_go = members.fit(self._capacity - self._reserved, 1, self.steps_to_go)

    def _bytes(self, tokens: int) -> int:
        found = self._sizes.get(tokens)
        if found is None:
            found = self._sizes[tokens] = self._model.kv_bytes(tokens, self._dtype)
        return found

    def _copy_ps(self, request: int) -> int:
        size = self._bytes(self._of[request].input_tokens)
        return -(-size * 8 * PS_PER_S // self._rules.swap_bps)
