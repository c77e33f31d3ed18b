"""The server itself: TLS, ends that take too long, and requests that the table knows nothing of."""

from __future__ import annotations

import datetime
import ssl
import threading
import time
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from flowmesh.api.http.exchange import Exchange
from tests.api.http.conftest import ServedNode, append, make_stream, problem, read


def certificate(directory: Path) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, encoding = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    (directory / "cert.pem").write_bytes(made.public_bytes(encoding))
    (directory / "key.pem").write_bytes(key.private_bytes(encoding, pem, serialization.NoEncryption()))
    return str(directory / "cert.pem"), str(directory / "key.pem")


def test_with_a_certificate_the_wire_speaks_tls_only(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    node = ServedNode(tmp_path / "data", tls_certificate=cert, tls_key=key).start()
    try:
        trusted = ssl.create_default_context(cafile=cert)
        headers = {"authorization": f"Bearer {node.token}"}
        url = f"https://localhost:{node.port}"
        with httpx.Client(base_url=url, verify=trusted, headers=headers, trust_env=False) as client:
            stream = make_stream(client, "secret")
            append(client, stream, "x" * 100_000)
            assert len(read(client, stream)) == 1
        with pytest.raises(httpx.TransportError), node.client() as plain:
            plain.get("/healthz")
    finally:
        node.stop()


def test_an_answer_that_does_not_end_in_time_is_cut_off(own_node: ServedNode) -> None:
    with own_node.client() as client:
        stream = make_stream(client, "endless")
        append(client, stream, *["x" * 1_000_000] * 20)
        with client.stream(
            "GET", f"{stream}/records", params={"limit": 100}, headers={"accept": "application/x-ndjson"}
        ):
            own_node.on_loop(lambda: setattr(own_node.running, "_patience_s", 0.3))
            began = time.monotonic()
            own_node.stop()
            assert time.monotonic() - began < 8


def test_many_connections_are_served_at_once(served: ServedNode, client: httpx.Client) -> None:
    stream = make_stream(client, "many", partitions=4)
    failures: list[str] = []

    def work(number: int) -> None:
        with served.client() as own:
            for turn in range(20):
                found = own.post(f"{stream}/records", json={"value": f"{number}-{turn}", "key": str(number)})
                if found.status_code != 200:
                    failures.append(found.text)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert not failures
    found = [record for number in range(4) for record in read(client, stream, partition=number, limit=1000)]
    assert sorted(record["value"] for record in found) == sorted(f"{n}-{t}" for n in range(16) for t in range(20))
    for number in range(16):
        mine = [int(record["value"].split("-")[1]) for record in found if record["key"] == str(number)]
        assert mine == sorted(mine)


def test_a_fault_of_our_own_is_a_problem_without_details(
    served: ServedNode, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("something only the log may say")

    monkeypatch.setattr(Exchange, "reply", broken)
    found = problem(client.get("/v1/node"))
    assert (found["status"], found["code"]) == (500, "INTERNAL")
    assert "only the log" not in str(found)
    assert "only the log" in caplog.text


def test_a_deleted_stream_is_gone_for_those_who_append_to_it(served: ServedNode, client: httpx.Client) -> None:
    stream = make_stream(client, "vanishing")
    statuses: set[int] = set()
    stopped = threading.Event()

    def work() -> None:
        with served.client() as own:
            while not stopped.is_set():
                statuses.add(own.post(f"{stream}/records", json={"value": "x"}).status_code)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(5):
        time.sleep(0.05)
        make_stream(client, "vanishing")
    client.delete(stream)
    time.sleep(0.1)
    stopped.set()
    for worker in workers:
        worker.join(10)
    assert statuses >= {200, 404}
    assert statuses <= {200, 404, 503}
