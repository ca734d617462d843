"""What `makeway up` loads: the process imports it from which those of the tests are forked.

It stays as it is: the collector of a forked process would look through all of it, and whoever
looks through a page of memory gets a copy of it.
"""

from __future__ import annotations

import gc

import makeway.cli.up
import makeway.embedded.serving  # noqa: F401
import tests.harness.forked  # noqa: F401

gc.collect()
gc.freeze()
