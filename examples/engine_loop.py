"""The engine driven by hand: objects in, decisions out, then one workload ends.

Run it from the root of the repository: python examples/engine_loop.py
"""

from pathlib import Path

from makeway.api.batch import Namespace
from makeway.api.intake import take_in
from makeway.api.manifests import read_manifests
from makeway.api.queueing import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from makeway.engine.engine import Engine
from makeway.engine.events import WorkloadFinished, WorkloadSeen
from makeway.engine.model import WorkloadKey
from makeway.translate.queues import changed
from makeway.translate.words import decision_text
from makeway.translate.workloads import status_of, workload_of

QUEUES = Path(__file__).with_name("01-queues.yaml")
NINE_O_CLOCK = 1767603600.0


def play(engine: Engine, path: Path, now: float) -> None:
    """Hand the objects of a file to the engine, and have it decide whenever a workload comes."""
    for manifest in read_manifests(path.read_text(), path.name).manifests:
        taken_in = take_in(manifest.document)
        match taken_in.object:
            case None:
                raise SystemExit("\n".join(map(str, taken_in.errors)))
            case Workload() as workload:
                status = status_of(workload)
                engine.apply(WorkloadSeen(workload_of(workload), status))
                run(engine, now)
            case ResourceFlavor() | ClusterQueue() | LocalQueue() | Namespace() as view:
                engine.apply(changed(view))


def run(engine: Engine, now: float) -> None:
    """Run cycles until nothing is left to decide, and print every decision."""
    while True:
        cycle = engine.run_cycle(now)
        for decision in cycle.decisions:
            text = decision_text(decision)
            print(f"{text.verb} {text.workload}")
            for detail in text.details:
                print(f"    {detail}")
        if cycle.next_at != now:
            return


def main() -> None:
    engine = Engine()
    print("--- three workloads come in, one after the other")
    play(engine, QUEUES, NINE_O_CLOCK + 180)
    print("--- render has finished")
    engine.apply(WorkloadFinished(WorkloadKey("vision/render")))
    run(engine, NINE_O_CLOCK + 3600)


if __name__ == "__main__":
    main()
