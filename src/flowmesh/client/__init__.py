"""The Python client: `connect` for asyncio, `connect_blocking` for everybody else. See docs/sdk.md."""

from flowmesh.client.blocking import BlockingClient, connect_blocking
from flowmesh.client.client import Client, connect
from flowmesh.client.consumer import StreamConsumer
from flowmesh.client.producer import StreamProducer
from flowmesh.client.received import ReceivedBatch
from flowmesh.client.stream_handle import StreamHandle
from flowmesh.format.columns import Record

__all__ = [
    "BlockingClient",
    "Client",
    "ReceivedBatch",
    "Record",
    "StreamConsumer",
    "StreamHandle",
    "StreamProducer",
    "connect",
    "connect_blocking",
]
