"""FlowMesh: events, jobs, state and live hand-offs on one hash-chained log.

Only the version lives here, so that importing the package costs nothing.
"""

__version__ = "0.1.0"
