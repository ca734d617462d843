"""A DAG of two pods: the first hands a result to the second through Airflow (XCom)."""

import sys

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG


def pod(name: str, script: str, **more: object) -> KubernetesPodOperator:
    return KubernetesPodOperator(
        task_id=name,
        name=name,
        namespace="default",
        image="none",
        cmds=["sh", "-c"],
        arguments=[script],
        labels={"kueue.x-k8s.io/queue-name": "default"},
        config_file=sys.argv[1],
        on_finish_action="keep_pod",
        **more,
    )


with DAG("results", schedule=None) as dag:
    push = pod("push", "expr 12 '*' 12 > /airflow/xcom/return.json", do_xcom_push=True)
    push >> pod("tell", "echo the square is {{ ti.xcom_pull('push') }}")

if __name__ == "__main__":
    run = dag.test()
    print("dag", run.state)
