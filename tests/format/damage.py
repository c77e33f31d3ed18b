"""Every single-bit flip and every truncation of some bytes, and the strategies that the format tests share."""

from collections.abc import Iterator

from hypothesis import strategies as st

HASHES = st.binary(min_size=32, max_size=32)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
STAMPS = st.integers(0, 2**63 - 1)
"""What a clock may say."""

RECORD_TIMES = st.integers(-(2**62) + 1, 2**62 - 1)
HEADER_LISTS = st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), max_size=3)
NULLABLE = st.none() | st.binary(max_size=12)
ROWS = st.lists(st.tuples(NULLABLE, NULLABLE, HEADER_LISTS, RECORD_TIMES), min_size=1, max_size=80)
"""Records as (value, key, headers, time)."""


def bit_flips(data: bytes) -> Iterator[bytes]:
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            yield bytes(flipped)


def truncations(data: bytes) -> Iterator[bytes]:
    """Every beginning of `data` that is not all of it, the empty one too."""
    return (data[:size] for size in range(len(data)))
