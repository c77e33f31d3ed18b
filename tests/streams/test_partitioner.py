"""A key goes to the partition to which every client of the Kafka family sends it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.streams.partitioner import murmur2, partition_of

# From the test of Kafka's own implementation (UtilsTest.testMurmur2), as signed 32-bit numbers.
KAFKA_HASHES = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize("key, signed", KAFKA_HASHES)
def test_the_hash_is_that_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("key, signed", KAFKA_HASHES)
@pytest.mark.parametrize("partitions", [1, 2, 7, 256])
def test_the_partition_is_the_hash_without_its_sign(key: bytes, signed: int, partitions: int) -> None:
    assert partition_of(key, partitions) == (signed & 0x7FFFFFFF) % partitions


@given(st.binary(max_size=100), st.integers(1, 256))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


def test_keys_are_spread_evenly() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[partition_of(b"key-%d" % number, 16)] += 1
    assert 850 < min(counts) <= max(counts) < 1150
