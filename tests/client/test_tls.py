"""TLS with a certificate made here: trusted by its authority, refused without it, never spoken in the clear."""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import flowmesh
from flowmesh.base import errors
from flowmesh.client.address import parse_address
from flowmesh.client.direct import DirectConnection
from flowmesh.operations.messages import DescribeNode, NodeDescription
from flowmesh.testing import NodeProcess


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flowmesh test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "node.crt", folder / "node.key"
    certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_file.touch(0o600)
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate_file, key_file


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, Path]]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = self_signed(folder)
    with NodeProcess(folder / "data", tls_certificate=certificate, tls_key=key) as node:
        yield node, certificate


def test_records_go_through_tls(secure: tuple[NodeProcess, Path]) -> None:
    node, certificate = secure
    assert node.url.startswith("flowmeshs://")

    async def run() -> None:
        async with flowmesh.connect(node.url, token=node.token, ca_file=certificate) as client:
            stream = await client.create_stream("sealed")
            async with await stream.producer() as producer:
                await producer.send_many([bytes(1000)] * 5000)
            async with stream.consumer("earliest", until_end=True) as consumer:
                assert sum([len(batch) async for batch in consumer.batches()]) == 5000

    asyncio.run(run())


def test_a_blocking_connection_goes_through_tls_too(secure: tuple[NodeProcess, Path]) -> None:
    node, certificate = secure
    with DirectConnection(parse_address(node.url, certificate), node.token) as connection:
        described = connection.request("node.describe", DescribeNode(), NodeDescription)
        assert described.tenants >= 1
    with pytest.raises(errors.BadRequest, match="not trusted"):
        DirectConnection(parse_address(node.url), node.token)


def test_an_authority_that_is_not_trusted_is_refused_at_once(secure: tuple[NodeProcess, Path]) -> None:
    node, _ = secure

    async def run() -> None:
        with pytest.raises(errors.BadRequest, match="not trusted"):
            await flowmesh.connect(node.url, token=node.token)
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        async with flowmesh.connect(node.url, token=node.token, tls=trusting) as client:
            await client.describe_node()

    asyncio.run(run())


def test_plain_text_to_a_tls_port_gets_nothing(secure: tuple[NodeProcess, Path]) -> None:
    node, _ = secure

    async def run() -> None:
        with pytest.raises(errors.FlowMeshError, match="flowmeshs://"):
            await flowmesh.connect(node.url.replace("flowmeshs", "flowmesh"), token=node.token, timeout_s=0.5)

    asyncio.run(run())


def test_tls_to_a_port_without_it_is_refused_at_once(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "plain") as node:
        url = node.url.replace("flowmesh", "flowmeshs")

        async def run() -> None:
            with pytest.raises(errors.BadRequest, match="does not speak TLS"):
                await flowmesh.connect(url, token=node.token)

        asyncio.run(run())
        with pytest.raises(errors.BadRequest, match="does not speak TLS"):
            DirectConnection(parse_address(url), node.token)
