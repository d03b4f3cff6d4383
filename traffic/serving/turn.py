"""What a step boundary of a batch changes; requests by number."""

from typing import NamedTuple


class Turn(NamedTuple):
    """What happened to whom at a boundary.

    ``prefilled``: the prompt is computed, and with it the next token is there; ``left``: the last
    token is; ``evicted``: cache dropped or swapped out; ``joined``: decodes from now on; ``began``:
    the first chunk of the prompt is in the step that starts now.
    """

    prefilled: list[int]
    left: list[int]
    evicted: list[int]
    joined: list[int]
    began: list[int]
