"""Random streams that a run's seed owns, one for every purpose.

Streams of different purposes are independent, so that drawing more of one (longer outputs, say)
leaves the others (arrivals) as they were. PCG64 gives the same bits on every machine; numpy keeps
its derived distributions within a release series (NEP 19).
"""

from hashlib import sha256

import numpy as np

from traffic.error import RequestError


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A fresh PCG64 stream for (seed, purpose); the seed is a whole number of at least 0.

    >>> a, b = generator(1, "arrival"), generator(1, "length")
    >>> int(a.integers(1000)) == int(generator(1, "arrival").integers(1000))
    True
    >>> bool(a.integers(2**60) == b.integers(2**60))
    False
    """
    if seed < 0:
        raise RequestError(f"seed {seed}: negative; write a whole number of at least 0")
    word = int.from_bytes(sha256(purpose.encode()).digest()[:8], "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, word])))
