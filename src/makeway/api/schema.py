"""How the dataclasses say what their documents look like, where a plain type does not.

`codec` reads these marks. A field is named after its JSON name (`nominal_quota` is `nominalQuota`)
unless its metadata has a `name`; a field without default must be there; null counts as absent.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum, auto
from fractions import Fraction
from typing import Annotated, Any

Document = Mapping[str, object]


class Mark(Enum):
    AMOUNT = auto()
    QUANTITY = auto()
    DURATION = auto()
    TIME = auto()
    INT32 = auto()
    WHOLE = auto()


# How much of a resource, in its smallest unit. The resource is the key in a mapping, else the
# sibling field `name`.
Amount = Annotated[int, Mark.AMOUNT]
# A quantity that is no amount of a resource: a weight, a factor.
Quantity = Annotated[Fraction, Mark.QUANTITY]
Duration = Annotated[float, Mark.DURATION]  # seconds; "1h30m" in the document
Time = Annotated[float, Mark.TIME]  # seconds since 1970; RFC 3339 in the document
Int32 = Annotated[int, Mark.INT32]
# Where a view of a built-in kind keeps the whole document that it shows parts of. A class with such
# a field is written back as it came; neither it nor what is inside is checked for unknown fields.
Whole = Annotated[Document | None, Mark.WHOLE]


def unsupported(what: str) -> Any:
    """A field that is accepted, kept as written, and reported: Makeway lacks the ability `what`."""
    return field(default=None, metadata={"unsupported": what})
