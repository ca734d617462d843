"""Other people's client libraries: list, watch, create, patch, delete."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.harness.documents import cluster_queue, job
from tests.harness.served import Served, embedded_server
from tests.prerequisites import library

QUEUES = {"group": "kueue.x-k8s.io", "version": "v1beta2", "plural": "clusterqueues"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with embedded_server(tmp_path_factory.mktemp("data")) as started:
        yield started


def test_the_official_client(server: Served) -> None:
    kubernetes = library("kubernetes")
    api = kubernetes.config.new_client_from_config(str(server.kubeconfig))
    batch = kubernetes.client.BatchV1Api(api)
    custom = kubernetes.client.CustomObjectsApi(api)
    made = batch.create_namespaced_job("default", job("official"))
    assert made.spec.completions == 1
    seen = []
    for event in kubernetes.watch.Watch().stream(
        batch.list_namespaced_job, "default", timeout_seconds=5
    ):
        seen.append((event["type"], event["object"].metadata.name))
        break
    assert seen == [("ADDED", "official")]
    batch.patch_namespaced_job("official", "default", {"spec": {"suspend": True}})
    batch.patch_namespaced_job_status("official", "default", {"status": {"active": 2}})
    found = batch.read_namespaced_job("official", "default")
    assert (found.spec.suspend, found.status.active) == (True, 2)
    custom.create_cluster_custom_object(body=cluster_queue("official"), **QUEUES)
    patch = {"spec": {"cohortName": "lab"}}
    custom.patch_cluster_custom_object(name="official", body=patch, **QUEUES)
    listed = custom.list_cluster_custom_object(**QUEUES)["items"]
    assert [item["spec"]["cohortName"] for item in listed] == ["lab"]
    custom.delete_cluster_custom_object(name="official", **QUEUES)
    batch.delete_namespaced_job("official", "default", propagation_policy="Background")
    with pytest.raises(kubernetes.client.ApiException) as caught:
        batch.read_namespaced_job("official", "default")
    assert caught.value.status == 404


def test_the_official_dynamic_client(server: Served) -> None:
    kubernetes = library("kubernetes")
    dynamic = library("kubernetes.dynamic")
    api = kubernetes.config.new_client_from_config(str(server.kubeconfig))
    client = dynamic.DynamicClient(api)
    queues = client.resources.get(api_version="kueue.x-k8s.io/v1beta2", kind="ClusterQueue")
    body = cluster_queue("dynamic")
    client.server_side_apply(queues, body=body, name="dynamic", field_manager="me")
    assert queues.get(name="dynamic").spec.queueingStrategy == "BestEffortFIFO"
    queues.delete(name="dynamic")


def test_kubernetes_asyncio(server: Served) -> None:
    library("kubernetes_asyncio")
    kubernetes_asyncio = library("kubernetes_asyncio")

    async def story() -> None:
        api = await kubernetes_asyncio.config.new_client_from_config(str(server.kubeconfig))
        async with api:
            batch = kubernetes_asyncio.client.BatchV1Api(api)
            await batch.create_namespaced_job("default", job("async"))
            seen = []
            watch = kubernetes_asyncio.watch.Watch()
            async for event in watch.stream(
                batch.list_namespaced_job, "default", timeout_seconds=5
            ):
                seen.append((event["type"], event["object"].metadata.name))
                break
            await watch.close()
            assert seen == [("ADDED", "async")]
            await batch.patch_namespaced_job(
                "async",
                "default",
                {"spec": {"suspend": True}},
                _content_type="application/merge-patch+json",
            )
            found = await batch.list_namespaced_job("default", label_selector="x!=y")
            assert [item.spec.suspend for item in found.items] == [True]
            await batch.delete_namespaced_job("async", "default")

    asyncio.run(story())


def test_lightkube(server: Served) -> None:
    library("lightkube")
    resources = library("lightkube.resources.batch_v1")
    generic = library("lightkube.generic_resource")
    config = library("lightkube.config.kubeconfig").KubeConfig.from_file(str(server.kubeconfig))
    client = library("lightkube").Client(config=config, field_manager="me")
    patch_type = library("lightkube.types").PatchType
    made = client.create(resources.Job.from_dict(job("light")), namespace="default")
    assert made.spec.completions == 1
    client.patch(resources.Job, "light", {"spec": {"suspend": True}}, namespace="default")
    assert [item.spec.suspend for item in client.list(resources.Job, namespace="default")] == [True]
    for event, item in client.watch(resources.Job, namespace="default", server_timeout=5):
        assert (event, item.metadata.name) == ("ADDED", "light")
        break
    queue = generic.create_global_resource(
        "kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues"
    )
    client.apply(queue(cluster_queue("light")))
    client.patch(queue, "light", {"spec": {"cohortName": "lab"}}, patch_type=patch_type.MERGE)
    assert client.get(queue, "light").spec["cohortName"] == "lab"
    client.delete(queue, "light")
    client.delete(resources.Job, "light", namespace="default")


def test_kr8s(server: Served) -> None:
    kr8s = library("kr8s")
    objects = library("kr8s.objects")
    api = kr8s.api(kubeconfig=str(server.kubeconfig))
    made = objects.Job({**job("krates"), "apiVersion": "batch/v1", "kind": "Job"}, api=api)
    made.create()
    assert [found.name for found in api.get("jobs", namespace="default")] == ["krates"]
    made.patch({"spec": {"suspend": True}})
    made.refresh()
    assert made.spec.suspend is True
    assert list(api.get("clusterqueues.kueue.x-k8s.io")) == []
    made.delete()
    made.wait("delete", timeout=10)
