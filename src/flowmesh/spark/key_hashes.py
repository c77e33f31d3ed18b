"""The partition of every key of a column at once: murmur2 as in `streams.partitioner`, computed by Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from flowmesh.streams.partitioner import partition_of

_SEED, _M, _SIGN = 0x9747B28C, 0x5BD1E995, 0x7FFFFFFF
_VECTOR_ROWS = 512
"""Fewer keys are hashed one by one."""
_VECTOR_KEY_BYTES = 256
"""Longer ones too: the vectors are walked four bytes at a time."""


def partitions_of(keys: pa.Array, partitions: int) -> pa.Array:
    """int32; null where the key is null. Keys that repeat much are hashed once each."""
    encoded = keys.dictionary_encode()
    unique = encoded.dictionary
    numbers = _numbers(unique, partitions)
    return numbers.take(encoded.indices)


def _numbers(unique: pa.Array, partitions: int) -> pa.Array:
    if len(unique) >= _VECTOR_ROWS and pc.max(pc.binary_length(unique)).as_py() <= _VECTOR_KEY_BYTES:
        positive = pc.bit_wise_and(_hashes(unique), pa.scalar(_SIGN, pa.uint32())).cast(pa.int32())
        count = pa.scalar(partitions, pa.int32())
        return pc.subtract(positive, pc.multiply(pc.divide(positive, count), count))
    return pa.array([partition_of(key, partitions) for key in unique.to_pylist()], pa.int32())


def _word(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint32())


def _hashes(keys: pa.Array) -> pa.Array:
    """Keys of one length at a time, so that all of them take the same steps."""
    lengths = pc.binary_length(keys)
    order = pc.sort_indices(lengths)
    sorted_keys = keys.take(order)
    counts = pc.value_counts(lengths)
    sizes = sorted(zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True))
    pieces, start = [], 0
    for length, count in sizes:
        pieces.append(_of_one_length(sorted_keys.slice(start, count), length))
        start += count
    return pa.concat_arrays(pieces).take(pc.sort_indices(order))


def _of_one_length(keys: pa.Array, length: int) -> pa.Array:
    """Filled up to whole words with zeros, the bytes of all keys are one table of words."""
    count, words = len(keys), -(-length // 4)
    h = pa.repeat(_word(_SEED ^ length), count)
    if not words:
        return _finished(h)
    filled = pc.binary_join_element_wise(keys, pa.scalar(bytes(4 * words - length)), pa.scalar(b""))
    every = pa.Array.from_buffers(pa.uint32(), count * words, [None, filled.buffers()[2]])
    table = pa.FixedSizeListArray.from_arrays(every, words)
    for position in range(length // 4):
        k = pc.multiply(pc.list_element(table, position), _word(_M))
        k = pc.multiply(pc.bit_wise_xor(k, pc.shift_right(k, _word(24))), _word(_M))
        h = pc.bit_wise_xor(pc.multiply(h, _word(_M)), k)
    if length % 4:
        h = pc.multiply(pc.bit_wise_xor(h, pc.list_element(table, words - 1)), _word(_M))
    return _finished(h)


def _finished(h: pa.Array) -> pa.Array:
    h = pc.multiply(pc.bit_wise_xor(h, pc.shift_right(h, _word(13))), _word(_M))
    return pc.bit_wise_xor(h, pc.shift_right(h, _word(15)))
