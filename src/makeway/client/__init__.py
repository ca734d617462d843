"""One client of the Kubernetes protocol, for the embedded server and for a real one."""

from makeway.client.client import (
    ApiError,
    Client,
    Conflict,
    Gone,
    Listing,
    NotFound,
    Unavailable,
    WatchEvent,
)
from makeway.client.reflector import Changed, Reflector, Synced

__all__ = [
    "ApiError",
    "Changed",
    "Client",
    "Conflict",
    "Gone",
    "Listing",
    "NotFound",
    "Reflector",
    "Synced",
    "Unavailable",
    "WatchEvent",
]
