"""One client of the Kubernetes protocol, for the embedded server and for a real one."""

from typing import TYPE_CHECKING, Any

from makeway.client.client import ApiError, Client, Conflict, Gone, NotFound, Unavailable

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Reflectors need an event loop; who asks one question does without both."""
    if name not in __all__:
        raise AttributeError(name)
    from makeway.client import reflector

    return getattr(reflector, name)
