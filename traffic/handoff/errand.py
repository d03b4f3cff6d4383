"""What a flow is for, told by its hand-off number.

Numbers from 0 up are hand-offs, by request. The others are errands of a request, which no budget
counts as its cache: control messages (-1 - request, down to -2**40), and the reads and writes of
the remote pool of prefix blocks and hand-offs that were given up, each kind in a range of its own
below. The emulator knows the last as hand-offs: they are renumbered when a run is over.
"""

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SHIFT: Final = 40
_MESSAGES: Final = 1 << _SHIFT
_LOST: Final = 3 << _SHIFT


class Errand(IntEnum):
    """Why a flow that is no hand-off crosses the fabric."""

    MESSAGE = 0
    READ = 1
    WRITE = 2
    LOST = 3


def number_of(errand: Errand, request: int) -> int:
    """The hand-off number of a request's errand.

    >>> number_of(Errand.MESSAGE, 3)
    -4
    """
    return -1 - (errand << _SHIFT) - request


def request_of(number: int) -> int:
    """The request that a flow serves, by its hand-off number.

    >>> [request_of(n) for n in (3, -4, number_of(Errand.WRITE, 3))]
    [3, 3, 3]
    """
    return number if number >= 0 else (-1 - number) & ((1 << _SHIFT) - 1)


def of_pool(number: int) -> bool:
    """Whether a flow reads or writes the remote pool.

    >>> [of_pool(n) for n in (3, -4, number_of(Errand.READ, 3), number_of(Errand.LOST, 3))]
    [False, False, True, False]
    """
    return -_LOST <= number < -_MESSAGES


def pooled(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which flows read or write the remote pool, by their hand-off numbers."""
    return np.asarray((numbers < -_MESSAGES) & (numbers >= -_LOST), np.bool_)


def given_up(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of hand-offs that were given up, for those they had while under way.

    >>> given_up(np.array([3])).tolist() == [number_of(Errand.LOST, 3)]
    True
    """
    return np.asarray(-1 - _LOST - numbers, np.int64)
