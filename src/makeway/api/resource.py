"""A kind of object as servers name it; which kinds there are, `kinds.py` says."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol


class Kind(Protocol):
    """What the class of a top-level object says about itself."""

    API_VERSION: ClassVar[str]
    KIND: ClassVar[str]


@dataclass(frozen=True)
class Resource:
    """A kind of object as servers name it. Group, version and plural tell it from all others.

    There are few, and every request asks them the same: so what follows is worked out once.
    """

    api_version: str  # the one that is stored and preferred, with its group: batch/v1
    plural: str
    kind: str = field(compare=False)
    is_namespaced: bool = field(default=True, compare=False)
    short_names: tuple[str, ...] = field(default=(), compare=False)
    categories: tuple[str, ...] = field(default=(), compare=False)
    has_status: bool = field(default=True, compare=False)
    older_versions: tuple[str, ...] = field(default=(), compare=False)  # that are served as well
    view: type[Kind] | None = field(default=None, compare=False)  # None: Makeway reads no part
    stored_as: "Resource | None" = field(
        default=None, compare=False
    )  # another name of these objects

    @cached_property
    def group(self) -> str:
        """Empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """The stored one first."""
        return (self.api_version.rpartition("/")[2], *self.older_versions)

    @property
    def stored(self) -> "Resource":
        """The kind under which its objects are kept."""
        return self.stored_as or self

    def in_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @cached_property
    def full_name(self) -> str:
        """What messages, kubectl and the store call it: jobs.batch"""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def is_built_in(self) -> bool:
        """Whether it is Kubernetes' own: those have other patches and checks than a CRD's kinds."""
        return "." not in self.group or self.group.endswith(".k8s.io")

    @cached_property
    def schema(self) -> str:
        """The name of the schema of the stored version."""
        if self.is_built_in:
            place = f"io.k8s.api.{self.group.partition('.')[0] or 'core'}"
        else:
            place = ".".join(reversed(self.group.split(".")))
        return f"{place}.{self.versions[0]}.{self.kind}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = "/apis/" if "/" in self.api_version else "/api/"
        middle = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        path = f"{root}{self.api_version}{middle}/{self.plural}"
        for step in (name, subresource):
            path += f"/{step}" if step else ""
        return path
