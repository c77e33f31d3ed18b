"""Every bound of the log in one place. A bound that is not here does not exist."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

CHAIN_LOCAL_ID_BYTES = 8
CHAIN_NAME_BYTES_MAX = 128

BATCH_BYTES_MAX = 64 * MIB
"""The most data one block may hold, as stored. An entry's length is checked against it before memory is taken."""

BATCH_BYTES_DECODED_MAX = 256 * MIB
"""The most a compressed batch may unfold to: the guard against a decompression bomb."""

BATCH_RECORDS_MAX = 4_000_000
RECORD_HEADERS_MAX = 16_000_000
"""Header pairs in one batch."""

SEGMENT_BYTES_MIN = 64 * KIB
SEGMENT_BYTES_DEFAULT = 256 * MIB
SEGMENT_BYTES_MAX = 16 * GIB
SEGMENT_RECORDS_DEFAULT = 50_000_000
SEGMENT_AGE_DEFAULT_NS = 7 * 24 * 3600 * 1_000_000_000
SEGMENT_NUMBER_MAX = 999_999_999

INDEX_INTERVAL_BYTES = 64 * KIB
"""One index entry for every so many bytes of segment."""

INDEX_PERSIST_BYTES = 32 * MIB
"""The active segment's index is written out each time so much has become durable: what recovery has to scan."""

INDEX_ENTRIES_MAX = 8_000_000

TAIL_CACHE_BYTES_DEFAULT = 8 * MIB
DISK_RESERVE_BYTES_DEFAULT = 64 * MIB
READ_BYTES_DEFAULT = 1 * MIB
READ_BYTES_MAX = 256 * MIB
OPEN_FILES_PER_LOG_MAX = 16

COMMIT_BYTES_MAX = 64 * MIB
"""The most that one group commit gathers; what waits beyond it goes into the next."""

PREPARE_BYTES_MIN, PREPARE_BYTES_MAX = 128 * KIB, 16 * MIB
"""How much has to wait for a writer before it seals some of it beside a sync, and how much of it at the most."""

HALVED_BYTES_MIN = 1 * MIB
"""From this size on a group commit may leave half of what waits to the next one, to be sealed beside its sync."""

SEALED_BYTES_PER_NS = 1.5
"""About how fast a machine of today hashes: whether sealing takes longer than a sync."""

WRITER_QUEUE_BYTES_MAX = 256 * MIB
"""The most that may wait for a writer before submitters are held back."""

INTERVAL_MS_MAX = 60_000

SNAPSHOT_BYTES = 64 * MIB
"""A machine's snapshot is written each time so much has been appended: what has to be folded again after a crash."""

# --- the node and its wires -----------------------------------------------------------------------------------------

PARTITIONS_MAX = 256
"""Of one stream."""
STREAMS_PER_TENANT_MAX = 1_000
TOKENS_PER_TENANT_MAX = 1_000
TENANTS_MAX = 1_000

REQUEST_BYTES_MAX = 32 * MIB
"""The body of a request, on every wire, after any decompression."""
REQUEST_RECORDS_MAX = 1_000_000
RECORD_BYTES_MAX = 16 * MIB
HEADER_NAME_BYTES_MAX = 1_024
CONNECTIONS_MAX = 12_000
"""On one wire."""
CONNECTIONS_SHARE = 5 / 8
"""Of the files that a node may have open: the most that go to connections of all wires; the rest is for its logs."""
IN_FLIGHT_PER_CONNECTION_MAX = 10_000
READ_WAIT_MS_MAX = 60_000
READ_RECORDS_MAX = 1_000_000
SUBSCRIPTION_WINDOW_MAX = 1_000_000
SUBSCRIPTION_STALL_MS = 30_000
"""How long a subscriber may leave its window full before the node stops pushing to it."""
SUBSCRIPTIONS_PER_CONNECTION_MAX = 100

SPLIT_BYTES_MIN = 64 * KIB
SPLIT_BYTES_DEFAULT = 32 * MIB
SPLIT_BYTES_MAX = 16 * GIB
SPLITS_MAX = 10_000
"""Of one range; pieces of a longer one are larger than was asked for."""

GROUPS_PER_STREAM_MAX = 256
GROUP_HOLD_S_MAX = 10 * 365 * 24 * 3600
GROUP_LOCATION_CHARS_MAX = 1_024
GROUPS_CARRY_BYTES = 4 * MIB
"""The log of groups is written anew when it is longer than this, and than three times what was written anew last."""
GROUPS_PIECE_BYTES = 1 * MIB
"""How much of them goes into one block then."""
GROUPS_NOTE_NS = 60 * 1_000_000_000
"""How long the node has run is written down so often, while a group holds anything."""

# --- frames and their connections -----------------------------------------------------------------------------------

FRAME_HEADER_BYTES_MAX = 1 * MIB
FRAME_BYTES_MAX = REQUEST_BYTES_MAX + FRAME_HEADER_BYTES_MAX + KIB
"""Of a request; what a node sends may be as large as one block."""
FRAME_REPLY_BYTES_MAX = BATCH_BYTES_MAX + REQUEST_BYTES_MAX + MIB
"""What a client has to take: a read's worth of blocks, or a single one of the largest size."""
FRAME_READ_BYTES_MAX = 32 * MIB
"""The most that a read over frames may ask for."""
FRAME_HELLO_BYTES_MAX = 8 * KIB
"""A frame from somebody who has not said yet who it is."""
FRAME_HELLO_MS = 10_000
"""How long a new connection may take to say who it is."""
FRAME_UNFINISHED_MS = 60_000
"""How long the bytes of one frame may take to arrive."""
FRAME_IDLE_MS = 600_000
"""How long a connection may be silent. A client that has nothing to say pings."""
FRAMES_UNFINISHED_BYTES_MAX = 512 * MIB
"""What all connections together may hold of frames that are not whole yet."""
IN_FLIGHT_BYTES_PER_CONNECTION_MAX = 32 * MIB
WRITE_BUFFER_BYTES = 1 * MIB
"""Replies that wait for a slow reader; beyond it no more of its requests are taken."""
READS_PER_CONNECTION_MAX = 4
"""That hold data at the same time; those that wait for data are not counted."""
