"""Documents, revisions, events, compaction, and what becomes of damaged or foreign files."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.store import (
    Compacted,
    Conflict,
    Corrupt,
    Event,
    FileInUse,
    Key,
    Record,
    Store,
    WriteFailed,
    WrongFile,
)

FIRST = 1000


class Notes:
    """Collects what writers are told."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.failed: list[int] = []

    def __call__(self, record: Record, failure: WriteFailed | None) -> None:
        (self.durable if failure is None else self.failed).append(record.revision)


def opened(folder: Path, events_kept: int = 10_000) -> Store:
    return Store(folder / "makeway.db", events_kept=events_kept, first_revision=FIRST)


def job(name: str, namespace: str = "default") -> Key:
    return Key("jobs", namespace, name)


def put(store: Store, key: Key, text: str = "x") -> Record:
    current = store.latest(key)
    expected = 0 if current is None else current.revision
    record = store.submit(key, expected, lambda r: f"{text}@{r}".encode(), Notes())
    store.flush()
    return record


def remove(store: Store, key: Key) -> Record:
    current = store.latest(key)
    assert current is not None
    body: Callable[[int], bytes] = lambda _: current.body  # noqa: E731
    record = store.submit(key, current.revision, body, Notes(), is_deletion=True)
    store.flush()
    return record


def names(events: list[Event]) -> list[tuple[str, bool]]:
    return [(event.record.key.name, event.is_deletion) for event in events]


def test_a_write_is_there_after_reopening(tmp_path: Path) -> None:
    store = opened(tmp_path)
    written = put(store, job("a"), "hello")
    store.close()

    assert opened(tmp_path).get(job("a")) == Record(job("a"), written.revision, b"hello@1001")


def test_readers_see_a_write_only_once_it_is_durable(tmp_path: Path) -> None:
    store, notes = opened(tmp_path), Notes()
    store.submit(job("a"), 0, lambda _: b"1", notes)

    assert store.get(job("a")) is None
    latest = store.latest(job("a"))
    assert latest is not None
    assert latest.body == b"1"
    assert notes.durable == []

    store.flush()
    assert store.get(job("a")) is not None
    assert notes.durable == [1001]


def test_a_second_write_builds_on_one_that_is_still_on_its_way(tmp_path: Path) -> None:
    store, notes = opened(tmp_path), Notes()
    first = store.submit(job("a"), 0, lambda _: b"1", notes)
    store.submit(job("a"), first.revision, lambda _: b"2", notes)
    with pytest.raises(Conflict):
        store.submit(job("a"), first.revision, lambda _: b"3", notes)
    store.flush()

    found = store.get(job("a"))
    assert found is not None
    assert found.body == b"2"
    assert notes.durable == [1001, 1002]


@pytest.mark.parametrize("expected", [0, 999, 1002])
def test_a_write_that_expects_another_revision_is_refused(tmp_path: Path, expected: int) -> None:
    store = opened(tmp_path)
    put(store, job("a"))

    with pytest.raises(Conflict) as caught:
        store.submit(job("a"), expected, lambda _: b"2", Notes())
    assert caught.value.found == 1001


def test_a_count_is_the_length_of_a_scan(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    for namespace in ("a", "ab", "b"):
        for name in ("x", "y", "z"):
            key = Key("kind", namespace, name)
            store.submit(key, 0, lambda revision: b"{}", lambda record, failure: None)
    store.flush()
    for namespace, after in (("", None), ("a", None), ("", ("ab", "y")), ("ab", ("ab", "x"))):
        assert store.count("kind", namespace, after) == len(store.scan("kind", namespace, after))
    assert store.count("kind", "ab", ("b", "x")) == 0


def test_scans_go_by_namespace_and_name_and_page(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for namespace, name in (("b", "1"), ("a", "2"), ("a", "1"), ("a-c", "0"), ("b", "0")):
        put(store, job(name, namespace))

    def places(records: list[Record]) -> list[str]:
        return ["/".join(record.key[1:]) for record in records]

    assert places(store.scan("jobs")) == ["a/1", "a/2", "a-c/0", "b/0", "b/1"]
    assert places(store.scan("jobs", "a")) == ["a/1", "a/2"]
    assert places(store.scan("jobs", limit=2)) == ["a/1", "a/2"]
    assert places(store.scan("jobs", after=("a", "2"), limit=2)) == ["a-c/0", "b/0"]
    assert places(store.scan("jobs", "b", after=("b", "0"))) == ["b/1"]
    assert store.scan("pods") == []


def test_events_carry_the_state_before(tmp_path: Path) -> None:
    store = opened(tmp_path)
    heard: list[Event] = []
    stop = store.listen("jobs", heard.append)
    put(store, job("a"), "one")
    put(store, job("a"), "two")
    remove(store, job("a"))
    stop()
    put(store, job("b"))

    assert names(heard) == [("a", False), ("a", False), ("a", True)]
    assert [e.previous and e.previous.body for e in heard] == [None, b"one@1001", b"two@1002"]
    assert store.events_since(FIRST, "jobs")[:3] == heard
    assert names(store.events_since(1002, "jobs")) == [("a", True), ("b", False)]
    assert store.events_since(FIRST, "pods") == []


def test_events_survive_a_restart(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for text in ("one", "two"):
        put(store, job("a"), text)
    remove(store, job("a"))
    before = store.events_since(FIRST, "jobs")
    store.close()

    assert opened(tmp_path).events_since(FIRST, "jobs") == before


def test_compaction_forgets_old_events_and_keeps_every_document(tmp_path: Path) -> None:
    store = opened(tmp_path, events_kept=10)
    for number in range(400):
        put(store, job(f"job-{number % 7}"), str(number))
    put(store, job("gone"))
    remove(store, job("gone"))
    for number in range(400):
        put(store, job(f"job-{number % 7}"), str(number))
    documents, oldest = store.scan("jobs"), store.oldest

    assert oldest > FIRST
    with pytest.raises(Compacted):
        store.events_since(oldest - 1, "jobs")
    kept = store.events_since(oldest, "jobs")
    store.close()

    again = opened(tmp_path, events_kept=10)
    assert again.scan("jobs") == documents
    assert again.oldest == oldest
    assert again.events_since(oldest, "jobs") == kept
    rows = sqlite3.connect(f"file:{tmp_path}/makeway.db?mode=ro&immutable=1", uri=True)
    # Those kept, at most one before each, and the documents themselves.
    assert rows.execute("SELECT count(*) FROM writes").fetchone()[0] <= len(kept) + 7


def test_revisions_go_on_after_everything_is_deleted_and_compacted(tmp_path: Path) -> None:
    store = opened(tmp_path, events_kept=0)
    for _ in range(300):
        put(store, job("a"))
        last = remove(store, job("a"))
    store.close()

    again = opened(tmp_path)
    assert again.revision == last.revision
    assert put(again, job("a")).revision == last.revision + 1


def test_a_full_disk_gives_errors_and_no_damage(tmp_path: Path) -> None:
    store, notes = opened(tmp_path), Notes()
    put(store, job("small"))
    store.limit_pages(20)
    store.submit(job("big"), 0, lambda _: b"x" * 500_000, notes)
    store.submit(job("behind"), 0, lambda _: b"x", notes)
    store.flush()

    assert notes.failed == [1002, 1003]
    assert store.get(job("big")) is None
    assert store.latest(job("big")) is None
    store.limit_pages(10_000)
    # Numbers of failed writes are not used again: somebody may have seen them.
    assert put(store, job("after")).revision == 1004
    store.close()
    assert [r.key.name for r in opened(tmp_path).scan("jobs")] == ["after", "small"]


def test_everything_behind_a_failed_batch_fails_with_it(tmp_path: Path) -> None:
    store, notes = opened(tmp_path), Notes()
    first = store.submit(job("a"), 0, lambda _: b"1", notes)
    batch = store.begin()
    assert batch is not None
    store.submit(job("a"), first.revision, lambda _: b"2", notes)
    store.settle(batch, WriteFailed("disk on fire"))

    assert notes.failed == [1001, 1002]
    assert store.latest(job("a")) is None
    assert store.begin() is None


def test_a_second_opener_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(FileInUse, match="in use by another process"):
        opened(tmp_path)
    store.close()
    opened(tmp_path).close()


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    opened(tmp_path)
    assert (tmp_path / "makeway.db").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "makeway.db").write_bytes(b"hello" * 1000)
    with pytest.raises(Corrupt, match="not a database"):
        opened(tmp_path)


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "makeway.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(WrongFile, match="not one of Makeway"):
        opened(tmp_path)


def test_a_file_of_a_newer_makeway_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    other = sqlite3.connect(tmp_path / "makeway.db")
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(WrongFile, match="newer Makeway"):
        opened(tmp_path)


def test_a_flipped_bit_in_a_body_is_reported(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, job("a"), "UNMISTAKABLE")
    store.close()
    content = (tmp_path / "makeway.db").read_bytes()
    assert b"UNMISTAKABLE" in content
    (tmp_path / "makeway.db").write_bytes(content.replace(b"UNMISTAKABLE", b"UNMISTAKABLF"))
    with pytest.raises(Corrupt, match=r"revision 1001 .* does not match its checksum"):
        opened(tmp_path)


def test_a_torn_file_is_reported(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(200):
        put(store, job(f"job-{number}"), "x" * 500)
    store.close()
    content = (tmp_path / "makeway.db").read_bytes()
    (tmp_path / "makeway.db").write_bytes(content[: len(content) // 2])
    with pytest.raises(Corrupt, match="damaged"):
        opened(tmp_path)


def test_a_file_that_lost_its_content_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, job("a"))
    log = (tmp_path / "makeway.db-wal").read_bytes()
    store.close()
    (tmp_path / "makeway.db").write_bytes(b"")
    (tmp_path / "makeway.db-wal").write_bytes(log)

    with pytest.raises(Corrupt, match="it is empty, but makeway"):
        opened(tmp_path)
    assert (tmp_path / "makeway.db-wal").read_bytes() == log


def test_a_file_left_empty_by_a_crash_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "makeway.db").touch()
    assert put(opened(tmp_path), job("a")).revision == 1001


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove", "reopen"])),
        max_size=40,
    )
)
def test_the_store_agrees_with_a_dictionary(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store, model, seen = opened(folder, events_kept=3), dict[str, int](), FIRST
    for name, step in steps:
        if step == "reopen":
            store.close()
            store = opened(folder, events_kept=3)
        elif step == "put":
            model[name] = put(store, job(name)).revision
        elif name in model:
            remove(store, job(name))
            del model[name]
        assert {r.key.name: r.revision for r in store.scan("jobs")} == model
        assert store.revision >= seen
        seen = store.revision
        # Replaying the events that are kept, backwards, never contradicts what is there.
        state = dict(model)
        for event in reversed(store.events_since(store.oldest, "jobs")):
            assert state.get(event.record.key.name) == (
                None if event.is_deletion else event.revision
            )
            if event.previous is None:
                del state[event.record.key.name]
            else:
                state[event.record.key.name] = event.previous.revision
    store.close()


def test_a_listener_that_fails_keeps_neither_the_writer_nor_the_others_from_hearing(
    tmp_path: Path,
) -> None:
    store, heard, notes = opened(tmp_path), list[Event](), Notes()

    def broken(event: Event) -> None:
        raise ValueError("no")

    store.listen("jobs", broken)
    store.listen("jobs", heard.append)
    for name in ("a", "b"):
        store.submit(job(name), 0, lambda r: b"{}", notes)
    store.flush()

    assert [event.record.key.name for event in heard] == ["a", "b"]
    assert notes.durable == [FIRST + 1, FIRST + 2]


def test_events_are_kept_by_their_size_as_well(tmp_path: Path) -> None:
    store = Store(tmp_path / "makeway.db", events_kept_bytes=100_000, first_revision=FIRST)
    for _ in range(50):
        put(store, job("a"), "x" * 10_000)

    assert sum(len(event.record.body) for event in store._events) <= 135_000
    assert len(store.events_since(store.oldest, "jobs")) == len(store._events)
    with pytest.raises(Compacted):
        store.events_since(FIRST, "jobs")
    store.close()
    assert (tmp_path / "makeway.db").stat().st_size < 400_000
    again = opened(tmp_path)
    assert again.get(job("a")) is not None


def test_what_is_reserved_takes_writes_when_the_file_may_not_grow(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(20):
        put(store, job(str(number)), "x" * 1000)
    assert store.reserve(200_000)
    size = (tmp_path / "makeway.db").stat().st_size
    notes = Notes()
    for number in range(20):
        key = job(str(number))
        found = store.latest(key)
        assert found is not None
        store.submit(key, found.revision, lambda r: b"gone", notes, is_deletion=True)
    store.flush()

    assert len(notes.durable) == 20
    assert (tmp_path / "makeway.db").stat().st_size == size
    assert store.reserve(200_000)  # it is there still
