"""A DAG of two pods, one after the other; `dag.test()` runs it in this process."""

import sys

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

QUEUE = {"kueue.x-k8s.io/queue-name": "default"}


def pod(name: str, script: str) -> KubernetesPodOperator:
    return KubernetesPodOperator(
        task_id=name,
        name=name,
        namespace="default",
        image="none",
        cmds=["sh", "-c"],
        arguments=[script],
        labels=QUEUE,
        config_file=sys.argv[1],
        on_finish_action="keep_pod",
    )


with DAG("squares", schedule=None) as dag:
    pod("square", f"expr 12 '*' 12 > {sys.argv[2]}; echo squared") >> pod(
        "tell", f"echo the square is $(cat {sys.argv[2]})"
    )

if __name__ == "__main__":
    run = dag.test()
    print("dag", run.state)
