"""The node of a run, and what names of streams mean there."""

from __future__ import annotations

from typing import NamedTuple

from flowmesh.base.errors import NotFound
from flowmesh.client.blocking import BlockingClient, BlockingStream, connect_blocking


class NodeTarget(NamedTuple):
    url: str
    token: str
    ca_file: str | None = None
    tenant: str = "default"
    namespace: str = "default"

    def path(self, name: str) -> str:
        """`tenant/namespace/name`; what is left out is that of the context."""
        parts = name.split("/")
        return "/".join([*[self.tenant, self.namespace][: 3 - len(parts)], *parts])

    def options(self, name: str) -> dict[str, str]:
        """How the source and the sink reach a stream."""
        found = {"stream": self.path(name), "url": self.url, "token": self.token}
        return found if self.ca_file is None else {**found, "caFile": self.ca_file}

    def environment(self) -> dict[str, str]:
        """The same for code that names no node: a Python file, or a declarative pipeline."""
        found = {"FLOWMESH_URL": self.url, "FLOWMESH_TOKEN": self.token}
        return found if self.ca_file is None else {**found, "FLOWMESH_CA_FILE": self.ca_file}

    def connect(self) -> BlockingClient:
        return connect_blocking(self.url, token=self.token, ca_file=self.ca_file)

    def stream(self, client: BlockingClient, name: str) -> BlockingStream:
        tenant, namespace, bare = self.path(name).split("/")
        return client.stream(bare, namespace=namespace, tenant=tenant)


def require_streams(target: NodeTarget, places: dict[str, str], *, create: bool) -> None:
    """That every stream which is written to is there. `places` says which field of the file names each."""
    with target.connect() as client:
        for name, place in places.items():
            tenant, namespace, bare = target.path(name).split("/")
            try:
                target.stream(client, name).describe()
            except NotFound:
                if not create:
                    raise NotFound(
                        f"{place}: there is no stream {target.path(name)}.",
                        field=place,
                        hint=f"Make it with 'flowmesh stream create {name}', or add 'create_streams: true'.",
                    ) from None
                client.create_stream(bare, namespace=namespace, tenant=tenant)
