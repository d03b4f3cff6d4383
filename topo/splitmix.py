"""SplitMix64: a stream of 64-bit numbers that is the same on every machine and version.

Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. All bits of an
output are equally good.
"""

from collections.abc import Iterator
from typing import Final

_MASK: Final = 2**64 - 1


def splitmix(seed: int) -> Iterator[int]:
    """The numbers of a seed, of which the low 64 bits count.

    >>> next(splitmix(0)) == 0xE220A8397B1DCDAF
    True
    """
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
        yield word ^ (word >> 31)
