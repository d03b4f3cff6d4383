"""Finite fields GF(q), q = p^n: elements are numbers below q, read as polynomials in base p.

A polynomial is sought of which x is a primitive element, so that the powers of x are all elements
but 0; for n = 1 a primitive root modulo p.
"""

from itertools import product


class Field:
    """GF(q): sums, products and the powers of a primitive element.

    >>> f = Field(5)
    >>> f.powers, f.add(3, 4), f.multiply(3, 4), f.subtract(1, 3)
    ([1, 2, 4, 3], 2, 2, 3)
    """

    def __init__(self, q: int) -> None:
        found = prime_power(q)
        if found is None:
            raise ValueError(f"q {q} is not a power of a prime")
        self.q, (self.p, self.n) = q, found
        self.powers = self._primitive()
        self._log = {value: i for i, value in enumerate(self.powers)}

    def add(self, a: int, b: int) -> int:
        """a + b."""
        return self._join([x + y for x, y in zip(self._split(a), self._split(b), strict=True)])

    def subtract(self, a: int, b: int) -> int:
        """a - b."""
        return self._join([x - y for x, y in zip(self._split(a), self._split(b), strict=True)])

    def multiply(self, a: int, b: int) -> int:
        """a b."""
        if not a or not b:
            return 0
        return self.powers[(self._log[a] + self._log[b]) % (self.q - 1)]

    def _split(self, a: int) -> list[int]:
        digits = []
        for _ in range(self.n):
            a, digit = divmod(a, self.p)
            digits.append(digit)
        return digits

    def _join(self, digits: list[int]) -> int:
        return sum(digit % self.p * self.p**i for i, digit in enumerate(digits))

    def _primitive(self) -> list[int]:
        """The powers of the first primitive element found."""
        for low in product(range(self.p), repeat=self.n):
            powers, following = [1], self._times(1, list(low))
            while following not in (0, 1) and len(powers) < self.q:
                powers.append(following)
                following = self._times(following, list(low))
            if len(powers) == self.q - 1 and following == 1:
                return powers
        raise AssertionError(f"GF({self.q}) has a primitive element")

    def _times(self, a: int, low: list[int]) -> int:
        """a times x, where x^n = low; for n = 1, a times low."""
        digits = self._split(a)
        if self.n == 1:
            return a * low[0] % self.p
        top = digits[-1]
        return self._join([d + top * c for d, c in zip([0, *digits[:-1]], low, strict=True)])


def prime_power(q: int) -> tuple[int, int] | None:
    """(p, n) where q = p^n with p prime and n >= 1, else None.

    >>> prime_power(27), prime_power(28)
    ((3, 3), None)
    """
    if q < 2:
        return None
    p = next((d for d in range(2, int(q**0.5) + 1) if q % d == 0), q)
    n = 0
    while q % p == 0:
        q //= p
        n += 1
    return (p, n) if q == 1 else None
