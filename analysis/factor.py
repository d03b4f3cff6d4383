"""What a comparison varies beside the policy, one key of the scenario at a time.

Two alternatives show what a key does where they differ in that key alone: a faster NIC beside
another queue discipline says nothing of either. What a design meets and does not choose
(`analysis.condition`) is no factor of it, and held equal as all other keys are.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from analysis.condition import is_design
from analysis.record import FabricFact, StudyManifest

FABRIC: Final = "fabric"
"""The key whose values are fabrics."""


Held = dict[str, Hashable]
"""What an alternative has under each key that is compared."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A key that is compared, with its value in words and all else, by fabric label.

    Labels with the same else differ in this key alone.
    """

    key: str
    value: Mapping[str, str]
    rest: Mapping[str, Hashable]

    @property
    def place(self) -> str:
        """The word before a value of it."""
        return "on" if self.key == FABRIC else "with"


def factors(labels: Sequence[str], study: StudyManifest) -> list[Factor]:
    """The keys beside the policy that fabric labels of a study, in its order, differ in."""
    held: dict[str, Held] = {}
    named: dict[Hashable, list[str]] = {}
    before: Counter[Hashable] = Counter()
    for label in dict.fromkeys(labels):
        texts = dict(study.varied.get(label, {FABRIC: label}))
        own, rest = texts.pop(FABRIC, label), _frozen(texts)
        # A fabric's own label may change with other keys; its place among those compared does not.
        held[label] = {FABRIC: before[rest], **texts}
        named.setdefault(before[rest], []).append(own)
        before[rest] += 1
    keys = dict.fromkeys(key for each in held.values() for key in each)
    found = []
    for key in filter(is_design, keys):
        values = {label: each.get(key) for label, each in held.items()}
        if len({*values.values()}) > 1:
            words = {v: " or ".join(dict.fromkeys(named.get(v, [str(v)]))) for v in values.values()}
            told = {label: words[value] for label, value in values.items()}
            rest_of = {label: _frozen(each, key) for label, each in held.items()}
            found.append(Factor(key, told, rest_of))
    return found


def topic(factor: Factor, facts: Sequence[FabricFact | None]) -> str:
    """What a key is called at the head of a sentence.

    Fabrics are a topology, or where they are one and the same by their facts a setting alone.
    """
    if factor.key != FABRIC:
        return f"`{factor.key}`"
    names = set(factor.value.values())
    alike = None not in facts and all(each == facts[0] for each in facts)
    return "The setting" if alike and len({n.partition(" ")[0] for n in names}) == 1 else "Topology"


def _frozen(held: Mapping[str, Hashable], but: str = "") -> Hashable:
    return frozenset(item for item in held.items() if item[0] != but)
