"""The operating system's randomness: of the length that was asked for, and never the same."""

from flowmesh.host.entropy import RealEntropy
from flowmesh.ports.entropy import Entropy


def test_gives_as_many_bytes_as_asked_and_others_each_time() -> None:
    entropy: Entropy = RealEntropy()
    assert [len(entropy.random_bytes(count)) for count in (0, 1, 32)] == [0, 1, 32]
    assert entropy.random_bytes(32) != entropy.random_bytes(32)
