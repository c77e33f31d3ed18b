"""From the header of an append to its partition: decoded, admitted and looked up once for each header."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from flowmesh.api.admission import Admission, Principal
from flowmesh.api.frames.headers import decoded
from flowmesh.api.service import Service, choose_partition
from flowmesh.node.partition import StreamPartition
from flowmesh.node.streams import OpenStream
from flowmesh.operations.frames import SingleAppend
from flowmesh.operations.messages import StreamRequest
from flowmesh.operations.table import BY_NAME

APPEND = BY_NAME["stream.append"]
REMEMBERED_MAX = 1024
"""Headers and streams that a connection remembers; when there are more it forgets all and starts again."""
_decode = msgspec.msgpack.Decoder(SingleAppend).decode


class Target(NamedTuple):
    """An append's stream and its decoded header."""

    stream: OpenStream
    request: SingleAppend
    is_plain: bool
    """Only a value: no key, no headers, no time."""

    def choose(self) -> tuple[int, StreamPartition]:
        number = choose_partition(self.stream, self.request.partition, self.request.key)
        return number, self.stream.partitions[number]


class Targets:
    """Of one connection. Whatever was looked up holds for one state of the catalog and one principal."""

    def __init__(self, service: Service, admission: Admission, peer: str) -> None:
        self._service = service
        self._admission = admission
        self._peer = peer
        self._known: dict[bytes, Target] = {}
        self._streams: dict[tuple[str, str, str], OpenStream] = {}
        self._principal: Principal | None = None
        self._node_streams: object = None

    def of(self, header: bytes, principal: Principal) -> Target:
        # A catalog change makes a new principal, an opened or closed stream a new dict: identity is the whole test.
        if principal is not self._principal or self._service.node.streams is not self._node_streams:
            self._node_streams, self._principal = self._service.node.streams, principal
            self._known, self._streams = {}, {}
        target = self._known.get(header)
        return self._find(header, principal) if target is None else target

    def _find(self, header: bytes, principal: Principal) -> Target:
        request = decoded(_decode, header, "header of an append")
        key = (request.tenant, request.namespace, request.name)
        stream = self._streams.get(key)
        if stream is None:
            self._admission.authorise(principal, APPEND, request, self._peer)
            stream = self._service.node.stream(key)
            if len(self._streams) >= REMEMBERED_MAX:
                self._streams = {}
            self._streams[key] = stream
        is_plain = request.key is None and request.time_ns is None and not request.headers and not request.null
        target = Target(stream, request, is_plain)
        if is_plain:
            if request.partition is not None:
                stream.partition(request.partition)
            if len(self._known) >= REMEMBERED_MAX:
                self._known = {}
            self._known[header] = target
        return target


def stream_of(service: Service, request: StreamRequest, number: int) -> tuple[OpenStream, StreamPartition]:
    """The stream and partition that an admitted request names."""
    stream = service.node.stream((request.tenant, request.namespace, request.name))
    return stream, stream.partition(number)
