"""What a class says to the compiler, where the engine is compiled; Python takes no notice of it.

A compiled class can be copied, and subclassed elsewhere, only if it allows interpreted subclasses:
else there is no way to make an object of it without calling its `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    Class = TypeVar("Class")

    def mypyc_attr(**_: bool) -> Callable[[Class], Class]:
        return lambda cls: cls
