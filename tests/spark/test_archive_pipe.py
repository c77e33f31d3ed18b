"""Bytes through Spark's writer of text: cut at ones, joined by them, the same again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import CorruptData
from flowmesh.spark.archive.pipe import SEPARATOR, chunks, text_batch


@given(st.lists(st.sampled_from([b"1", b"11", b"PAR", b"\xff\x00", b"x" * 50]), max_size=30), st.integers(1, 40))
def test_what_is_cut_and_joined_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], size: int
) -> None:
    data = b"".join(parts) + b"PAR1"
    place = tmp_path_factory.mktemp("pipe") / "file"
    place.write_bytes(data)
    assert b"".join(piece + SEPARATOR for piece in chunks(place, size)) == data


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"PAR12")
    with pytest.raises(CorruptData):
        list(chunks(tmp_path / "file"))


def test_text_is_whatever_the_bytes_are() -> None:
    batch = text_batch(b"\xff\xfe\x00")
    assert batch.schema.names == ["data"]
    assert batch.column(0).cast("binary").to_pylist() == [b"\xff\xfe\x00"]
