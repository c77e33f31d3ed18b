"""The manifest: it proves itself, it proves its segments, and nothing that was tampered with passes."""

from __future__ import annotations

import msgspec
import pytest

from flowmesh.archive import manifest as manifests
from flowmesh.archive.growing import Anchor, WrittenPiece, grown
from flowmesh.archive.manifest import NO_PREVIOUS, ArchivedFile, ArchivedSegment, Manifest
from flowmesh.archive.names import data_name
from flowmesh.base.errors import CorruptData, UnsupportedVersion
from flowmesh.format import segment as segment_format
from flowmesh.format.chain import checked
from flowmesh.format.segment import NO_HASH
from tests.format import examples

CHAIN = checked(bytes(8), "orders/0", 1)
ANCHORS = {0: Anchor(CHAIN, NO_HASH, NO_HASH)}


def block(offset: int) -> bytes:
    """The hash of the block that ends at an offset."""
    return offset.to_bytes(32, "big")


def segments(*ends: int) -> list[ArchivedSegment]:
    """Linked as a log links them: one for each end offset."""
    found: list[ArchivedSegment] = []
    before_segment, before_block, base = NO_HASH, NO_HASH, 0
    for number, end in enumerate(ends, 1):
        digest = segment_format.encode(CHAIN.hash, before_segment, before_block, base, 5)[-32:]
        found.append(ArchivedSegment(number, digest.hex(), 5, base, end, block(end).hex()))
        before_segment, before_block, base = digest, block(end), end
    return found


def piece(base: int, end: int, *held: ArchivedSegment, link: str | None = None) -> WrittenPiece:
    previous = link or next((segment.hash for segment in held if segment.base_offset == base), block(base).hex())
    name = data_name(CHAIN.hash, 0, base, end)
    file = ArchivedFile(name, base, end, end - base, 9, "ab" * 32, 1, 2, previous, block(end).hex())
    return WrittenPiece("tmp", 0, file, held)


def whole() -> Manifest:
    first, second, third = segments(10, 20, 30)
    return grown(None, "s", [piece(0, 20, first, second), piece(20, 30, third)], ANCHORS, 7)


def changed(manifest: Manifest, **fields: object) -> Manifest:
    partition = msgspec.structs.replace(manifest.partitions[0], **fields)
    return msgspec.structs.replace(manifest, partitions=(partition,))


def test_it_reads_as_it_was_written_and_knows_its_range() -> None:
    manifest = whole()
    assert manifests.decode(manifests.encode(manifest)) == manifest
    assert (manifest.number, manifest.previous) == (1, NO_PREVIOUS)
    held = manifest.partition(0)
    assert held is not None
    assert (held.start_offset, held.end_offset, held.chain) == (0, 30, CHAIN)
    assert manifest.partition(1) is None
    assert [file.base_offset for file in manifest.files] == [0, 20]


def test_a_flipped_bit_anywhere_is_found() -> None:
    data = bytearray(examples.STORED["archive-manifest"])
    unnoticed = []
    for position in range(len(data)):
        data[position] ^= 1
        try:
            same = manifests.decode(bytes(data)) == examples.MANIFEST
        except (CorruptData, UnsupportedVersion):
            same = True
        if not same:
            unnoticed.append(position)
        data[position] ^= 1
    assert unnoticed == []


def test_another_version_is_refused() -> None:
    data = examples.STORED["archive-manifest"].replace(b'"version": 1', b'"version": 2')
    with pytest.raises(UnsupportedVersion):
        manifests.decode(data)


def test_a_name_that_leads_elsewhere_is_refused() -> None:
    file = msgspec.structs.replace(whole().files[0], name="../../etc/passwd")
    with pytest.raises(CorruptData, match="names a file"):
        manifests.decode(manifests.encode(changed(whole(), files=(file,))))


def test_a_growing_segment_is_replaced_and_the_manifests_are_chained() -> None:
    first, second = segments(10, 20)
    part = msgspec.structs.replace(second, end_offset=15, last_block_hash=block(15).hex())
    before = grown(None, "s", [piece(0, 15, first, part)], ANCHORS, 1)
    after = grown(before, "s", [piece(15, 20, second)], ANCHORS, 2)
    assert after.previous == before.hash
    assert [segment.number for segment in after.partitions[0].segments] == [1, 2]
    assert after.partitions[0].end_offset == 20
    assert after.partitions[0].hashes_at(15) == {block(15).hex()}
    assert after.partitions[0].hashes_at(10) == {block(10).hex(), second.hash}


def test_an_empty_segment_in_between_is_no_gap() -> None:
    first, second, third = segments(10, 10, 20)
    second = msgspec.structs.replace(second, last_block_hash=second.hash)
    digest = segment_format.encode(
        CHAIN.hash, bytes.fromhex(second.hash), bytes.fromhex(second.last_block_hash), 10, 5
    )[-32:].hex()
    third = msgspec.structs.replace(third, hash=digest)
    assert grown(None, "s", [piece(0, 10, first), piece(10, 20, second, third, link=digest)], ANCHORS, 1).files


@pytest.mark.parametrize(
    "written, why",
    [
        ([piece(0, 10, segments(10)[0]), piece(20, 30, segments(10, 20, 30)[2])], "not from 10"),
        ([piece(0, 10, segments(10)[0]), piece(0, 10, segments(10)[0])], "not from 10"),
        ([piece(0, 10, segments(10)[0], link=block(99).hex())], "not linked to the block before it"),
        ([piece(0, 10, msgspec.structs.replace(segments(10)[0], hash="cd" * 32))], "not linked to the one before it"),
        ([piece(0, 10, msgspec.structs.replace(segments(10)[0], last_block_hash="cd" * 32))], "does not end with"),
        ([piece(0, 9, segments(10)[0])], "its files end at offset 9, its segments at 10"),
    ],
)
def test_what_does_not_fit_is_never_published(written: list[WrittenPiece], why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        grown(None, "s", written, ANCHORS, 1)


def test_tampering_that_was_hashed_again_is_still_found() -> None:
    manifest = whole()
    files = manifest.files
    forged = msgspec.structs.replace(files[1], previous_block_hash="cd" * 32)
    found = manifests.decode(manifests.encode(changed(manifest, files=(files[0], forged))))
    assert any("not linked" in fault for fault in manifests.faults(found))
    assert manifests.faults(changed(manifest, files=files[:1]))
    assert manifests.faults(changed(manifest, files=files[1:]))
    assert manifests.faults(changed(manifest, previous_block_hash="cd" * 32))
    assert manifests.faults(changed(manifest, chain_name="payments/0"))
    assert manifests.faults(msgspec.structs.replace(manifest, partitions=manifest.partitions * 2))
    assert manifests.faults(manifest) == []
