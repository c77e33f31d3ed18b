"""The version of this distribution: the one place that the build, the wires, the client and the commands read."""

VERSION = "0.1.0"
