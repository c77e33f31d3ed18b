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

WRITER_QUEUE_BYTES_MAX = 256 * MIB
"""The most that may wait for a writer before submitters are held back."""

INTERVAL_MS_MAX = 60_000
