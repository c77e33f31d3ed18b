"""The bounds that only the HTTP wire has. Those that all wires share are in `base/limits.py`."""

from __future__ import annotations

from flowmesh.base.limits import KIB, MIB

HEAD_BYTES_MAX = 32 * KIB
"""Request line and header lines together."""
HEAD_TIMEOUT_S = 10.0
"""From the first byte of a request, or from the connection, to the end of its header lines."""
IDLE_TIMEOUT_S = 75
"""How long a connection may be kept open between two requests."""
BODY_WINDOW_S = 15.0
BODY_WINDOW_BYTES_MIN = 15 * KIB
"""A body that is not complete has to grow by so much in each window, or its connection is closed."""
STALL_TIMEOUT_S = 30.0
"""How long a client may leave what it asked for unread before its connection is dropped."""
DISCARDED_BYTES_MAX = 64 * MIB
"""What is read and thrown away of a body that was refused, so that the client gets to see the refusal."""

FORM_BYTES_MAX = 64 * KIB
"""The JSON body of an operation that carries no records."""
BODIES_BYTES_MAX = 256 * MIB
"""All bodies together that are still coming in, or wait to be decoded."""
QUERY_FIELDS_MAX = 32
RECORD_HEADERS_MAX = 1_000
"""Headers of one record."""
MERGED_BYTES_MAX = 4 * KIB
"""A single record up to this size, with its headers, shares a batch with others that come at the same time. As a
connection has one request under way, those of all connections together still fit into one batch."""

WORKERS = 2
"""Threads that decode large bodies and render large answers."""
INLINE_BYTES_MAX = 32 * KIB
"""Work on less than this is done on the loop: handing it to a thread would cost more."""
PIECE_BYTES = 256 * KIB
"""Large bodies and answers are worked on in pieces of this size, so that the loop gets its turn in between."""
PIECE_RECORDS = 5_000
ZSTD_WINDOW_BYTES_MAX = 8 * MIB

PAGE_RECORDS_MAX = 100_000
PAGE_BYTES_MAX = 16 * MIB
"""One JSON answer. NDJSON and Arrow are streamed and need no such bound."""
HEARTBEAT_S = 15.0
PRINCIPALS_MAX = 4_096
DOORS_MAX = 4_096
DATE_INTERVAL_S = 1.0
