"""One client of the Kubernetes protocol, for the embedded server and for a real one."""

from makeway.client.client import ApiError, Client, Conflict, Gone, NotFound, Unavailable
from makeway.client.reflector import Changed, Reflector, Synced

__all__ = [
    "ApiError",
    "Changed",
    "Client",
    "Conflict",
    "Gone",
    "NotFound",
    "Reflector",
    "Synced",
    "Unavailable",
]
