"""What was sent to a stream and what the node said of it, kept outside of the node, and the check of what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOT_SAID = -1


@dataclass(slots=True)
class Shipment:
    """Records that go to one partition together: all of them are stored, one behind the other, or none is."""

    partition: int
    values: list[bytes]
    base_offset: int = NOT_SAID
    """Where the node said that they begin."""
    impossible: bool = False
    """It never left: nothing listened."""
    numbered: bool = False
    """Its producer repeats it until it is answered, and the node knows it again."""


class Ledger:
    """Of one stream. Every value is unlike all others, so that a value found says what it is."""

    def __init__(self, partitions: int) -> None:
        self.shipments: list[Shipment] = []
        self.found: list[list[bytes]] = [[] for _ in range(partitions)]
        """What was read so far, by partition and offset. It was served, so it may never change."""
        self.acknowledged = 0
        self._places: dict[bytes, tuple[int, int]] = {}
        self._open: list[Shipment] = []

    def send(self, partition: int, values: Sequence[bytes], *, numbered: bool = False) -> Shipment:
        shipment = Shipment(partition, list(values), numbered=numbered)
        self.shipments.append(shipment)
        self._open.append(shipment)
        return shipment

    def ends(self) -> list[int]:
        """By partition: the offset that is to be read next."""
        return [len(values) for values in self.found]

    def take(self, read: Mapping[int, Sequence[tuple[int, bytes]]], when: str) -> None:
        """What was read from `ends` on: every offset in its turn, and no value for the second time."""
        for partition, records in read.items():
            known = self.found[partition]
            for offset, value in records:
                assert offset == len(known), f"{when}: offset {offset} of partition {partition} follows {len(known)}"
                before = self._places.get(value)
                assert before is None, f"{when}: {value!r} is at {before} and again at {(partition, offset)}"
                self._places[value] = (partition, offset)
                known.append(value)

    def check(self, acknowledged: Sequence[Shipment], when: str) -> None:
        """`acknowledged` had its answer before the reading began; of all else, whole shipments may be there or not."""
        for shipment in acknowledged:
            base, end = shipment.base_offset, shipment.base_offset + len(shipment.values)
            there = self.found[shipment.partition][base:end]
            assert there == shipment.values, (
                f"{when}: {shipment.values[0]!r} and {len(shipment.values) - 1} more were said to be at"
                f" {shipment.partition}/{base}; there is {there[:2]!r}, the end is {self.ends()}"
            )
            self.acknowledged += len(shipment.values)
        settled = {id(shipment) for shipment in acknowledged}
        self._open = [shipment for shipment in self._open if id(shipment) not in settled]
        for shipment in self._open:
            self._require_whole_or_absent(shipment, when)

    def said(self) -> list[Shipment]:
        """Acknowledged, and not yet checked."""
        return [shipment for shipment in self._open if shipment.base_offset != NOT_SAID]

    def unknown(self) -> list[Shipment]:
        """Sent, perhaps, and never answered."""
        return [shipment for shipment in self._open if shipment.base_offset == NOT_SAID and not shipment.impossible]

    def require_nothing_else(self) -> None:
        """Whatever is stored was sent."""
        sent = {value for shipment in self.shipments for value in shipment.values}
        assert self._places.keys() <= sent, f"nobody sent {list(self._places.keys() - sent)[:3]}"

    def _require_whole_or_absent(self, shipment: Shipment, when: str) -> None:
        places = [self._places.get(value) for value in shipment.values]
        first = places[0]
        if first is None:
            assert places == [None] * len(places), f"{when}: a shipment of {shipment.values[0]!r} is there in part"
            return
        assert not shipment.impossible, f"{when}: {shipment.values[0]!r} is stored, and nothing was listening"
        partition, base = first
        assert partition == shipment.partition, f"{when}: {shipment.values[0]!r} is in partition {partition}"
        assert places == [(partition, base + row) for row in range(len(places))], f"{when}: out of order: {places}"
