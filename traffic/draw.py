"""Draws without state: a number that depends on the seed, a purpose and keys, and on nothing else.

A draw for request 17 is the same whatever was drawn before, so that alternatives that are compared
under one seed face the same luck, and no order of events can leak into it.
"""

from functools import cache
from typing import Final

_MASK: Final = (1 << 64) - 1


def mix(value: int) -> int:
    """The finaliser of SplitMix64: 64 bits (of any whole number) in, 64 well-mixed out.

    Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014. The first
    output of the published generator with seed 0:

    >>> hex(mix(0))
    '0xe220a8397b1dcdaf'
    """
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def draw(seed: int, purpose: str, key: int, below: int) -> int:
    """A whole number, uniform over 0 .. below - 1 (to one part in 2**64 / below)."""
    return (mix(_stream(seed, purpose) ^ mix(key)) * below) >> 64


@cache
def _stream(seed: int, purpose: str) -> int:
    state = mix(seed)
    for byte in purpose.encode():
        state = mix(state ^ byte)
    return state
