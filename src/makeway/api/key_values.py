"""ConfigMap and Secret: values by key, for pods to read. What a Secret holds is never shown."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.schema import Whole

VALUES_MAX_BYTES = 1024 * 1024  # of one object, all values together


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"

    metadata: ObjectMeta = UNNAMED
    data: Mapping[str, str] = field(default_factory=dict)
    binary_data: Mapping[str, str] = field(default_factory=dict)  # in base64
    immutable: bool = False
    document: Whole = field(default=None, repr=False, compare=False)

    def values(self) -> dict[str, bytes]:
        """By key, sorted."""
        found = {key: text.encode() for key, text in self.data.items()}
        found |= {key: b64decode(text) for key, text in self.binary_data.items()}
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Secret"

    metadata: ObjectMeta = UNNAMED
    data: Mapping[str, str] = field(default_factory=dict, repr=False)  # in base64
    type: str = "Opaque"
    immutable: bool = False
    document: Whole = field(default=None, repr=False, compare=False)

    def values(self) -> dict[str, bytes]:
        """By key, sorted."""
        return {key: b64decode(text) for key, text in sorted(self.data.items())}
