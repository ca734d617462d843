"""How a client wants to see objects: in which version, whole, as metadata or as a Table."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from makeway.api.kinds import Resource
from makeway.server import errors
from makeway.server.errors import bad_request
from makeway.server.messages import Request, accepted, decode, encode, is_json
from makeway.server.objects import shown_as
from makeway.server.tables import table


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a client wants to see objects."""

    resource: Resource
    version: str
    table_version: str = ""  # of meta.k8s.io, when a Table is asked for; else empty
    include_object: str = "Metadata"
    is_metadata_only: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether stored bodies can be sent as they are."""
        is_stored = self.version == self.resource.versions[0] and not self.resource.stored_as
        return is_stored and not self.table_version and not self.is_metadata_only

    def document(self, body: bytes) -> Any:
        document = shown_as(decode(body), self.resource, self.version)
        if self.is_metadata_only:
            return {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": document["metadata"],
            }
        return document

    def table(
        self, bodies: Iterable[bytes], now: float, metadata: Any, *, has_header: bool = True
    ) -> dict[str, Any]:
        return table(
            self.resource.stored.full_name,
            map(decode, bodies),  # columns are those of the stored version
            now,
            metadata=metadata,
            include_object=self.include_object,
            api_version=f"meta.k8s.io/{self.table_version}",
            has_header=has_header,
        )

    def one(self, body: bytes, now: float, *, has_header: bool = True) -> bytes:
        if self.is_plain:
            return body
        if not self.table_version:
            return encode(self.document(body))
        revision = decode(body)["metadata"].get("resourceVersion", "")
        metadata = {"resourceVersion": revision}
        return encode(self.table([body], now, metadata, has_header=has_header))


def view_of(request: Request, resource: Resource, version: str) -> View:
    """Read what the client accepts; the first acceptable answer wins."""
    plain = View(resource=resource, version=version)
    for kind, words in accepted(request):
        if not is_json(kind) or words.get("g", "meta.k8s.io") != "meta.k8s.io":
            continue
        shown_as, meta_version = words.get("as"), words.get("v", "v1")
        if shown_as == "Table" and meta_version in ("v1", "v1beta1"):
            include = request.query.get("includeObject", "") or "Metadata"
            if include not in ("None", "Metadata", "Object"):
                raise bad_request(f'unrecognized includeObject value: "{include[:50]}"')
            return replace(plain, table_version=meta_version, include_object=include)
        if shown_as in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return replace(plain, is_metadata_only=True)
        if shown_as is None:
            return plain
    raise errors.not_acceptable(["application/json"])
