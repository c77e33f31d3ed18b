"""Seeded randomness: the same seed gives the same bytes."""

from flowmesh.ports.entropy import Entropy
from flowmesh.sim.entropy import SimEntropy


def test_comes_back_with_its_seed() -> None:
    one: Entropy = SimEntropy(7)
    two, other = SimEntropy(7), SimEntropy(8)
    first = one.random_bytes(16)
    assert len(first) == 16
    assert two.random_bytes(16) == first
    assert other.random_bytes(16) != first
    assert one.random_bytes(16) != first
