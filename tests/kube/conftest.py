"""The servers that tests of several files share."""

from collections.abc import Iterator

import pytest

from tests.harness.served import Served, embedded_server
from tests.kube.plane import BOOKKEEPING, Plane, require_assets

REAL = frozenset(("plane", "bare_plane"))  # fixtures that start a control plane


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for a real control plane is run by `make test-kube`, not by `make test`."""
    for item in items:
        if isinstance(item, pytest.Function) and REAL & set(item.fixturenames):
            item.add_marker(pytest.mark.kube)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    require_assets()
    running = Plane(tmp_path_factory.mktemp("plane"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def bare_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Where nothing changes that nobody asked for."""
    require_assets()
    running = Plane(tmp_path_factory.mktemp("bare"), BOOKKEEPING)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with embedded_server(tmp_path_factory.mktemp("embedded")) as server:
        yield server
