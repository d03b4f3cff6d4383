"""What cannot be a frame is refused in one line, before anything is sent."""

import numpy as np
import pytest

from emulate.mininet.error import EmulationError
from emulate.mininet.inject import Ends, frame_batches

MAC, IP = "02:00:00:00:00:01", "10.0.0.1"


@pytest.mark.parametrize("text", ["zz", "", "02:00:00:00:00", "020000000001", "2:0:0:0:0:1"])
def test_what_is_no_mac_address_is_refused(text: str) -> None:
    with pytest.raises(EmulationError, match="write six bytes in hex"):
        Ends(MAC, text, IP, IP)


@pytest.mark.parametrize("text", ["::1", "", "1.2.3", "10.0.0.256", "host", "0x7f000001"])
def test_what_is_no_whole_ipv4_address_is_refused(text: str) -> None:
    with pytest.raises(EmulationError, match="write four numbers"):
        Ends(MAC, MAC, IP, text)


@pytest.mark.parametrize("size", [0, 3, 13])
def test_a_frame_shorter_than_its_header_is_refused_before_the_first_leaves(size: int) -> None:
    frames = [bytes(64)] * 600 + [bytes(size)]
    batches = frame_batches(np.zeros(601, np.int64), frames)
    with pytest.raises(EmulationError, match=f"frame 601 of {size}B: .* has 14B"):
        next(batches)
