"""Batches of producers for the tests of this folder."""

from flowmesh.format import columns
from flowmesh.format.batch import Batch, BatchHeader, Producer


def sent(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> Batch:
    values = [b"%d" % number for number in range(sequence, sequence + count)]
    return columns.encode(values, producer=Producer(producer, epoch, sequence))


def header(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return sent(sequence, count, producer=producer, epoch=epoch).header
