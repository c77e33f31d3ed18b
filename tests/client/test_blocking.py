"""The blocking face gives what the asynchronous client gives."""

import threading

import pytest

import flowmesh
from flowmesh.base import errors
from flowmesh.testing import NodeProcess


def test_everything_once_without_an_event_loop(node: NodeProcess) -> None:
    with flowmesh.connect_blocking(node.url, token=node.token) as client:
        stream = client.create_stream("blocking", partitions=2)
        assert str(stream) == "default/default/blocking"
        assert "blocking" in client.list_streams()
        stream.append(b"one", key=b"k")
        stream.append_many([b"two", None], partition=0)
        with stream.producer(linger_ms=1) as producer:
            producer.send(b"three", headers=[(b"n", b"v")])
            producer.send_many([b"four"] * 10)
            producer.flush()
        with stream.consumer("earliest", until_end=True) as consumer:
            records = list(consumer)
        assert len(records) == 14
        assert sum(consumer.positions.values()) == 14
        assert stream.read(0, partition=0)
        assert stream.find(at="earliest").offset == 0
        assert stream.alter(retention_bytes=10**9).retention_bytes == 10**9
        assert len(stream.describe().partitions) == 2
        stream.delete()
        client.create_tenant("blocked")
        made = client.create_token(tenant="blocked", permissions=["stream.read"])
        rotated = client.rotate_token(made.id)
        assert {token.id for token in client.list_tokens("blocked")} == {made.id, rotated.id}
        client.revoke_token(made.id)
        client.delete_tenant("blocked")
        assert "blocked" not in {tenant.tenant for tenant in client.list_tenants()}
        with pytest.raises(errors.NotFound):
            client.stream("blocking").describe()
        assert client.describe_node().version == flowmesh.__version__


def test_a_failed_connection_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(errors.Unavailable):
        flowmesh.connect_blocking("flowmesh://127.0.0.1:1", token="a.b", timeout_s=0.2)
    assert threading.active_count() == before
