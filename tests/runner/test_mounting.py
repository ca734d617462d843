"""Volumes are at their mount paths for a container's processes, and nobody else sees that."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from makeway.runner import mounting
from makeway.runner.host import Mount
from makeway.runner.local import LocalHost
from tests import prerequisites
from tests.harness.accounts import open_folder
from tests.runner.harness import UID, Machine, order, shell

SOURCE = str(Path(__file__).parents[2] / "src")
PLACE = f"/makeway-{os.getpid()}/deep/inside"  # nobody has such a folder
ALONE = """
import os, sys
sys.path.append(sys.argv[1])
from makeway.runner.mounting import show_if_possible
folder, place = sys.argv[2:]
volume = f"{folder}/volume"
show_if_possible([(volume, place), (f"{volume}/file", "/etc/issue", True)], folder)
script = f"id -u; cat {place}/file /etc/issue; touch {place}/new; ls {place}; touch /etc/issue 2>&1"
os.execvp("sh", ["sh", "-c", f"{script} | grep -o Read-only"])
"""


def test_a_container_has_its_volume_where_it_wants_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.host = LocalHost(tmp_path, mounts=True)
    write = shell(f"echo from-init > {PLACE}/file", "init", mounts=(Mount(volume="v", path=PLACE),))
    read = shell(
        f"cat {PLACE}/part", mounts=(Mount(volume="v", path=f"{PLACE}/part", sub_path="file"),)
    )
    machine.run(order(read, init=(write,), volumes={"v": ""}))

    assert machine.log() == "from-init\n"
    assert not Path(PLACE).parents[1].exists()
    assert (tmp_path / "pods" / UID / "volumes" / "v" / "file").read_text() == "from-init\n"


def test_what_is_only_to_be_read_can_be_written_by_others_alone(tmp_path: Path) -> None:
    """At its mount path, its link and its variable; the folder is the same for both containers."""
    machine = Machine(tmp_path)
    machine.host = LocalHost(tmp_path, mounts=True)
    write = shell(f"echo 1 > {PLACE}/file", "init", mounts=(Mount(volume="v", path=PLACE),))
    tries = f'for at in {PLACE} "$PWD{PLACE}" "$MAKEWAY_VOLUME_V"; do echo 2 > $at/file; done; '
    read = Mount(volume="v", path=PLACE, is_read_only=True)
    machine.run(
        order(shell(f"{tries} cat {PLACE}/file", mounts=(read,)), init=(write,), volumes={"v": ""})
    )

    *refused, content = machine.log().splitlines()
    assert [line.rpartition(": ")[2] for line in refused] == ["Read-only file system"] * 3
    assert content == "1"


def test_what_is_mounted_below_is_only_to_be_read_too(tmp_path: Path) -> None:
    """`/here` is where it is for everybody, and has something without programs in it below."""
    prerequisites.root()
    here = tmp_path / "he re"
    (here / "below").mkdir(parents=True)
    script = (
        f'cd "{here}"; touch a below/b; grep -c "below tmpfs ro,nosuid,noexec" /proc/self/mounts'
    )
    outer = ["unshare", "-m", "sh", "-c"]
    below = f'mount -t tmpfs -o nosuid,noexec tmpfs "{here}/below"; exec "$0" "$@"'
    said = shown(tmp_path, script, (str(here), str(here), True), around=[*outer, below])

    assert said.count("Read-only file system") == 2
    assert said.startswith("1\n")


def test_names_with_other_white_space_than_the_kernels_take_no_flags_away(tmp_path: Path) -> None:
    """A carriage return in the name of a volume; and a neighbour's mount, whose is no text."""
    prerequisites.root()
    for name in ("devices", "place", "neighbour"):
        (tmp_path / name).mkdir()
    named = f"cd {tmp_path}; own=$(printf 'devices/a\\rb'); other=$(printf 'neighbour/x\\r\\377')"
    flags = 'mount -t tmpfs -o nosuid,nodev,noexec tmpfs devices; mkdir "$own" "$other"'
    outer = ["unshare", "-m", "sh", "-c"]
    around = [*outer, f'{named}; {flags}; mount -t tmpfs tmpfs "$other"; exec "$0" "$@"']
    volume = (f"{tmp_path}/devices/a\rb", f"{tmp_path}/place", True)
    said = shown(
        tmp_path, "grep -ao '/place ro,[a-z,]*' /proc/self/mountinfo", volume, around=around
    )

    assert said == "/place ro,nosuid,nodev,noexec,relatime\n"


def test_what_is_mounted_below_later_does_not_come(tmp_path: Path) -> None:
    """An automount for example: in the machine's view, of which the container's was a slave."""
    prerequisites.root()
    here = tmp_path / "here"
    here.mkdir()
    shared = f"cd {here}; mount -t tmpfs tmpfs .; mount --make-shared {here}; mkdir {here}/later"
    later = f"nsenter --mount=/proc/$OUTER/ns/mnt mount -t tmpfs tmpfs {here}/later && touch"
    outer = ["unshare", "-m", "sh", "-c", f'{shared}; OUTER=$$ "$0" "$@"']
    said = shown(tmp_path, f"{later} {here}/later/a", (str(here), str(here), True), around=outer)

    assert "Read-only file system" in said


# Has two folders change their names when it is known what is mounted below, before that is used.
SWAPPED = """
from makeway.runner import mounting
known = mounting._mounted
def swapped():
    found = known()
    os.rename("a", "c"), os.rename("b", "a"), os.rename("c", "b")
    return found
mounting._mounted = swapped
"""


def test_who_swaps_mounts_meanwhile_gives_none_the_flags_of_another(tmp_path: Path) -> None:
    """`b/x` has no devices, and will have none when it is `a/x`; both can't be written to."""
    prerequisites.root()
    for name in ("a", "b"):
        (tmp_path / "here" / name / "x").mkdir(parents=True)
    here = str(tmp_path / "here")
    below = "mount -t tmpfs tmpfs a/x; mount -t tmpfs -o nodev tmpfs b/x"
    outer = ["unshare", "-m", "sh", "-c", f'cd {here}; {below}; exec "$0" "$@"']
    script = "grep -o '/here/./x tmpfs ro[a-z,]*' /proc/self/mounts"
    said = shown(tmp_path, script, (here, here, True), around=outer, before=SWAPPED)

    assert sorted(said.split("\n")[:-1]) == [
        "/here/a/x tmpfs ro,nodev,relatime",
        "/here/b/x tmpfs ro,relatime",
    ]


@pytest.mark.parametrize(
    ("mounts", "why"),
    [(True, "the pod's own folder lies there"), (False, "nothing is mounted for this pod")],
)
def test_what_cannot_be_kept_from_writing_is_not_run(
    tmp_path: Path, mounts: bool, why: str
) -> None:
    machine = Machine(tmp_path)
    machine.host = LocalHost(tmp_path, mounts=mounts)
    mount = Mount(volume="v", path=str(tmp_path), is_read_only=True)
    machine.run(order(shell("true", mounts=(mount,)), volumes={"v": str(tmp_path)}))

    assert machine.log() == f"mountPath {tmp_path}: readOnly can't be held: {why}\n"


def test_where_the_kernel_mounts_nothing_links_do_for_what_may_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mounting, "is_possible", lambda: False)

    mounting.show_if_possible([("/tmp", PLACE, False)], "/tmp")
    with pytest.raises(mounting.NotShown, match=f"{PLACE}: readOnly can't be held"):
        mounting.show_if_possible([("/tmp", PLACE, True)], "/tmp")


def test_what_cannot_be_mounted_is_said(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.host = LocalHost(tmp_path, mounts=True)
    missing = {"gone": str(tmp_path / "gone")}
    mount = Mount(volume="gone", path=f"{PLACE}\udcff")  # a byte that is no text
    machine.run(order(shell("true", mounts=(mount,)), volumes=missing))

    assert machine.log() == f"mountPath {PLACE}?: No such file or directory\n"


@pytest.fixture
def place() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def stranger(place: Path) -> list[str]:
    """How to run something as an account that is nobody, in a folder of its own."""
    prerequisites.root()
    alone = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    if subprocess.run([*alone, "unshare", "-Urm", "true"], capture_output=True).returncode:
        pytest.skip("users may not make namespaces here")
    (place / "volume").mkdir()
    (place / "volume" / "file").write_text("kept\n")
    for path in (place, place / "volume", place / "volume" / "file"):
        os.chown(path, 12345, 12345)
    return [*alone, "/usr/bin/python3", "-I", "-c", ALONE, SOURCE, str(place)]


def test_who_is_not_root_mounts_for_himself(stranger: list[str], place: Path) -> None:
    said = subprocess.run([*stranger, PLACE], capture_output=True, text=True, check=True)

    assert said.stdout.split() == ["12345", "kept", "kept", "file", "new", "Read-only"]
    assert (place / "volume" / "new").stat().st_uid == 12345


def test_a_place_in_a_folder_that_one_may_not_enter(stranger: list[str]) -> None:
    """Many a manifest has its cache below /root."""
    cache = f"/root/.makeway-{os.getpid()}/hub"
    said = subprocess.run([*stranger, cache], capture_output=True, text=True, check=True)

    assert said.stdout.split() == ["12345", "kept", "kept", "file", "new", "Read-only"]
    assert not Path(cache).parent.exists()


TWO = """
import os, sys
sys.path.append(sys.argv[1])
from makeway.runner.mounting import show
show([(sys.argv[2], sys.argv[2], True)], "/")
os.execvp("sh", ["sh", "-c", "touch $0/two/a 2>&1 | grep -o Read-only", sys.argv[2]])
"""


def test_of_two_mounts_at_one_place_the_upper_is_only_to_be_read(
    stranger: list[str], place: Path
) -> None:
    """As with autofs and what it mounts; who isn't root can't take flags from a mount."""
    two = place / "volume" / "two"
    two.mkdir()
    below = f"mount -t tmpfs tmpfs {two}; mount -t tmpfs -o nosuid,nodev,mode=777 tmpfs {two}"
    outer = ["unshare", "-m", "sh", "-c", f'{below}; exec "$0" "$@"']
    command = [*outer, *stranger[: stranger.index(ALONE)], TWO, SOURCE, str(two.parent)]
    said = subprocess.run(command, capture_output=True, text=True)

    assert said.stdout == "Read-only\n", said.stderr


# Before a double is filled, the folder above it becomes a link, or another folder with something in
# memory in the same place; or then an entry becomes a link, before the old one is mounted there.
LED = """
import os, sys
sys.path.append(sys.argv[1])
from makeway.runner import mounting
folder, way = sys.argv[2:]
mount_memory, mkdir = mounting._mount_memory, os.mkdir
def mislead(place):
    mount_memory(place)
    if way != "entry":
        os.rename(f"{folder}/above", f"{folder}/away")
        os.rename(f"{folder}/{way}", f"{folder}/above")
def exchange(place, mode=0o777):
    mkdir(place, mode)
    if way == "entry" and place.endswith("/mountinfo"):
        os.rmdir(place)
        os.symlink("/proc/self", place)
mounting._mount_memory = mislead
os.makedirs(f"{folder}/above/closed/mountinfo")
os.mkdir(f"{folder}/linked")
os.symlink("/proc/self", f"{folder}/linked/closed")
os.symlink("linked", f"{folder}/link")
os.chmod(f"{folder}/above/closed", 0o555)
os.mkdir = exchange
mounting.show([(f"{folder}/volume", f"{folder}/above/closed/new", False)], folder)
"""


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("link", "its path changes meanwhile"),
        ("other", "its path changes meanwhile"),
        ("entry", "nothing is mounted there"),
    ],
)
def test_a_double_is_not_filled_where_somebody_leads(
    stranger: list[str], place: Path, way: str, why: str
) -> None:
    """In /proc what lies there would be believed."""
    other = place / "other" / "closed"
    other.mkdir(parents=True)
    memory = f'mount -t tmpfs -o noexec,mode=777 tmpfs {other}; exec "$0" "$@"'
    alone = stranger[: stranger.index(ALONE)]
    command = ["unshare", "-m", "sh", "-c", memory, *alone, LED, SOURCE, str(place), way]
    said = subprocess.run(command, capture_output=True, text=True)

    assert said.stderr.endswith(f"closed/new: {why}\n")


# A volume with a codec of the account's lies over Python's own codecs, then something is mounted
# only to be read, then a codec is wanted that nobody wanted before.
MISLED = """
import encodings, os, sys
sys.path.append(sys.argv[1])
from makeway.runner.dropping import drop
from makeway.runner.mounting import show
folder, codecs = sys.argv[2], os.path.dirname(encodings.__file__)
def arrange():
    show([(f"{folder}/volume", codecs, False), (f"{folder}/volume", "/mnt", True)], folder)
    try:
        b"x".decode("unicode_escape")
    except LookupError as error:
        print(error)
owner = {"uid": 12345, "gid": 12345, "groups": [], "limits": {}, "umask": 0}
drop(owner | {"no_new_privileges": False}, os.getppid(), arrange=arrange)
print(os.listdir(codecs))
"""


def test_a_volume_over_pythons_files_is_not_run_with_the_right_to_mount(place: Path) -> None:
    prerequisites.root()
    evil = place / "volume" / "unicode_escape.py"
    evil.parent.mkdir()
    evil.write_text("print('taken over', open('/proc/self/status').read())")
    command = ["/usr/bin/python3", "-I", "-S", "-c", MISLED, SOURCE, str(place)]
    said = subprocess.run(command, capture_output=True, text=True)

    assert said.stdout.splitlines() == [
        "unknown encoding: unicode_escape",
        "['unicode_escape.py']",
    ], said


# Mounts a file system for another account that nobody ever answers for, and goes on from there.
NEIGHBOUR = """
import ctypes, os, sys
fuse = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(fuse, True)
options = f"fd={fuse},rootmode=40000,user_id=54321,group_id=54321".encode()
if ctypes.CDLL(None).mount(b"neighbour", os.fsencode(sys.argv[1]), b"fuse", 0, options):
    sys.exit("not mounted")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def test_a_neighbours_home_of_fuse_is_asked_nothing(stranger: list[str], place: Path) -> None:
    """It lies in a folder that gets a double; only its owner may look at it, root included."""
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no FUSE here")
    homes = place / "homes"
    (homes / "neighbour").mkdir(parents=True)
    command = ["unshare", "-m", sys.executable, "-c", NEIGHBOUR, str(homes / "neighbour")]
    said = subprocess.run(
        [*command, *stranger, str(homes / "hub")], capture_output=True, text=True, timeout=60
    )

    assert said.stdout.split()[:5] == ["12345", "kept", "kept", "file", "new"], said.stderr
    assert [path.name for path in homes.iterdir()] == ["neighbour"]


def shown(
    tmp_path: Path,
    script: str,
    *volumes: tuple[str, str, bool],
    around: Sequence[str] = (),
    before: str = "",
) -> str:
    """What a script prints for which volumes are mounted, by whoever we are."""
    child = (
        f"import os, sys, json\n{before}\nfrom makeway.runner.mounting import show\n"
        "show(json.loads(sys.argv[1]), sys.argv[2])\n"
        "os.execvp('sh', ['sh', '-c', sys.argv[3]])\n"
    )
    stage = tmp_path / "stage"
    stage.mkdir(exist_ok=True)
    command = [*around, sys.executable, "-c", child, json.dumps(volumes), str(stage), script]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": SOURCE})
    return done.stdout + done.stderr


def test_what_lies_on_top_of_a_double_is_left_as_it_is(tmp_path: Path) -> None:
    """`/var/run` is `/run`: that one gets a double, and then a volume of its own."""
    prerequisites.root()
    if not Path("/var/run").is_symlink():
        pytest.skip("/var/run is no link here")
    volume = tmp_path / "volume"
    volume.mkdir()
    name = f"makeway-{os.getpid()}"
    pairs = (str(volume), f"/var/run/{name}/x", False), (str(volume), "/run", False)

    assert "Read-only" not in shown(tmp_path, "touch /run/new; ls /run", *pairs)
    assert (volume / "new").exists()


def test_mounts_do_not_multiply_without_end(tmp_path: Path) -> None:
    """Each time all of the machine is shown in itself, what is mounted doubles."""
    prerequisites.root()
    places = [(str(tmp_path / f"p{number}")) for number in range(16)]
    for place in places:
        Path(place).mkdir()

    said = shown(tmp_path, "echo all", *(("/", place, False) for place in places))
    assert "too much is mounted below its volume" in said
