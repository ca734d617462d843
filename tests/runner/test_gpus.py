"""GPUs are handed out by index, per node, and never twice at once."""

from makeway.runner.gpus import held_on, take
from makeway.runner.host import PodState

GPU = "nvidia.com/gpu"


def holder(uid: str, *indexes: int, node: str = "n1", is_over: bool = False) -> PodState:
    return PodState(uid=uid, node=node, devices={GPU: indexes}, is_over=is_over)


def given(
    wanted: dict[str, int], of_node: dict[str, int], pods: list[PodState]
) -> dict[str, tuple[int, ...]] | None:
    return take(wanted, of_node, held_on("n1", pods))


def test_the_lowest_free_indexes_are_given() -> None:
    assert given({GPU: 2}, {GPU: 4}, [holder("a", 1)]) == {GPU: (0, 2)}


def test_what_is_held_is_not_given() -> None:
    assert given({GPU: 1}, {GPU: 2}, [holder("a", 0), holder("b", 1)]) is None


def test_what_a_pod_held_that_is_over_is_free() -> None:
    assert given({GPU: 1}, {GPU: 1}, [holder("a", 0, is_over=True)]) == {GPU: (0,)}


def test_each_node_counts_its_own() -> None:
    assert given({GPU: 1}, {GPU: 1}, [holder("a", 0, node="n2")]) == {GPU: (0,)}


def test_who_asks_for_none_gets_none() -> None:
    assert given({}, {GPU: 1}, [holder("a", 0)]) == {}
