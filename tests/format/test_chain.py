"""The identity of a chain, and the JSON files' shared rule about versions."""

import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest, CorruptData, UnsupportedVersion
from flowmesh.base.limits import CHAIN_NAME_BYTES_MAX
from flowmesh.base.times import NANOSECONDS
from flowmesh.format import chain
from tests.format.damage import STAMPS, bit_flips, truncations
from tests.format.examples import CHAIN, STORED

NAMES = st.text(min_size=1, max_size=30).filter(str.isprintable)


def document(**changes: Any) -> bytes:
    return json.dumps({**json.loads(STORED["chain"]), **changes}).encode()


@given(st.binary(min_size=8, max_size=8), NAMES, STAMPS)
def test_round_trip(local_id: bytes, name: str, created_ns: int) -> None:
    identity = chain.checked(local_id, name, created_ns)
    data = chain.encode(identity)
    assert chain.decode(data) == identity
    stamp = struct.pack("<QQ", created_ns // NANOSECONDS, created_ns % NANOSECONDS)
    assert identity.hash == hashlib.sha256(local_id + name.encode() + stamp).digest()
    assert json.loads(data)["hash"] == identity.hash.hex()


@given(st.binary(min_size=8, max_size=8), NAMES, STAMPS)
def test_another_identity_has_another_hash(local_id: bytes, name: str, created_ns: int) -> None:
    other = chain.ChainIdentity(local_id, name, created_ns)
    assert (other.hash == CHAIN.hash) == (other == CHAIN)


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "\x7f", "\ud800", "a" * 129, "é" * 65])
def test_a_name_outside_the_rules_is_refused(name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        chain.checked(bytes(8), name, 0)
    assert caught.value.field == "name"
    with pytest.raises(CorruptData):
        chain.decode(document(name=name))


def test_the_longest_name_fits() -> None:
    name = "é" * (CHAIN_NAME_BYTES_MAX // 2)
    assert chain.decode(chain.encode(chain.checked(bytes(8), name, 0))).name == name


@pytest.mark.parametrize("local_id", [b"", bytes(7), bytes(9)])
def test_a_local_id_of_another_size_is_refused(local_id: bytes) -> None:
    with pytest.raises(BadRequest):
        chain.checked(local_id, "a", 0)


@pytest.mark.parametrize("created_ns", [-1, 2**63, 10**40])
def test_a_time_outside_the_rules_is_refused(created_ns: int) -> None:
    with pytest.raises(BadRequest):
        chain.checked(bytes(8), "a", created_ns)
    with pytest.raises(CorruptData):
        chain.decode(document(created_ns=created_ns))


@pytest.mark.parametrize("version", [0, 2, -1, 10**30, "1", None, 1.0, [1]])
def test_another_version_is_refused_as_such(version: object) -> None:
    with pytest.raises(UnsupportedVersion):
        chain.decode(document(version=version))


def test_a_version_is_looked_at_before_fields_are() -> None:
    with pytest.raises(UnsupportedVersion):
        chain.decode(document(version=2, local_id=5, more="fields"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'"flowmesh.chain"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        STORED["floor"],
        document(more=1),
        document(hash="00" * 32),
        document(local_id="zz" * 8),
        document(local_id="é"),
        document(name="other"),
        document(created_ns="1"),
    ],
)
def test_what_is_no_chain_file_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptData):
        chain.decode(data)


def test_every_bit_flip_is_refused_or_changes_nothing() -> None:
    same = 0
    for flipped in bit_flips(STORED["chain"]):
        try:
            assert chain.decode(flipped) == CHAIN
            same += 1
        except (CorruptData, UnsupportedVersion):
            pass
    assert same < 32, "only white space and the case of hex digits may say the same"


def test_every_truncation_is_refused() -> None:
    for part in truncations(STORED["chain"].rstrip()):
        with pytest.raises(CorruptData):
            chain.decode(part)
