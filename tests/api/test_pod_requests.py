from makeway.api.batch import Container, PodSpec, ResourceRequirements, pod_requests


def container(name: str = "c", sidecar: bool = False, **requests: int) -> Container:
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests),
        restart_policy="Always" if sidecar else "",
    )


def test_containers_add_up() -> None:
    spec = PodSpec(containers=(container("a", cpu=1000, memory=5), container("b", cpu=500)))

    assert pod_requests(spec) == {"cpu": 1500, "memory": 5}


def test_a_large_init_container_counts_instead_of_the_containers() -> None:
    spec = PodSpec(
        init_containers=(container("fetch", cpu=4000, memory=1),),
        containers=(container("a", cpu=1000, memory=5), container("b", cpu=1000)),
    )

    assert pod_requests(spec) == {"cpu": 4000, "memory": 5}


def test_a_sidecar_runs_beside_the_containers_and_later_init_containers() -> None:
    spec = PodSpec(
        init_containers=(
            container("early", cpu=2500),
            container("proxy", sidecar=True, cpu=300),
            container("late", cpu=2500),
        ),
        containers=(container("main", cpu=2000),),
    )

    # early alone 2500; late with proxy 2800; main with proxy 2300
    assert pod_requests(spec) == {"cpu": 2800}


def test_a_limit_without_a_request_counts_as_one() -> None:
    resources = ResourceRequirements(requests={"cpu": 1000}, limits={"cpu": 2000, "gpu": 4})

    assert pod_requests(PodSpec(containers=(Container(name="c", resources=resources),))) == {
        "cpu": 1000,
        "gpu": 4,
    }


def test_overhead_comes_on_top() -> None:
    spec = PodSpec(containers=(container(cpu=1000),), overhead={"cpu": 250, "memory": 64})

    assert pod_requests(spec) == {"cpu": 1250, "memory": 64}


def test_a_request_for_the_pod_as_a_whole_replaces_the_sum() -> None:
    spec = PodSpec(
        containers=(container("a", cpu=1000, gpu=1), container("b", cpu=1000)),
        resources=ResourceRequirements(requests={"cpu": 1500}, limits={"gpu": 8, "memory": 10}),
        overhead={"cpu": 100},
    )

    assert pod_requests(spec) == {"cpu": 1600, "gpu": 1, "memory": 10}
