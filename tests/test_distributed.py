"""Counting on a Dask cluster gives the bytes of the local count, whatever happens to the workers."""

import gzip
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lagwise as lw
from lagwise import distributed as on_dask
from lagwise import parts, segments, shards
from lagwise.counting import count_to_store
from tests.support import run_cli, same_store

try:
    import distributed
except ImportError:
    distributed = None
needs_dask = pytest.mark.skipif(distributed is None, reason="needs Dask: pip install 'lagwise[distributed]'")


@pytest.fixture(scope="module")
def client():
    """One worker of two threads in this process: quick to start, and sees what tests replace."""
    whole, shards._CONTEXT_BYTES = shards._CONTEXT_BYTES, 3  # so that neighbours behind a part take several looks
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"
    ) as client:
        yield client
    shards._CONTEXT_BYTES = whole


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "text"
    with open(path, "w") as handle:
        for size in rng.integers(0, 60, size=3000):
            handle.write(" ".join(f"w{n}" for n in rng.zipf(1.2, size=size) if n < 3000) + "\n")
    return path


def compare(tmp_path, client, files, part_bytes, **options):
    """Count both ways into stores and compare every byte; both may refuse, then with the same words."""
    local, remote = tmp_path / "local", tmp_path / "remote"
    try:
        count_to_store(local, files, overwrite=True, **options)
    except (ValueError, OSError) as error:
        with pytest.raises(type(error)) as other:
            on_dask.count_to_store(remote, files, client, overwrite=True, part_bytes=part_bytes, **options)
        assert str(other.value) == str(error)
        return None
    counts = on_dask.count_to_store(remote, files, client, overwrite=True, part_bytes=part_bytes, **options)
    same_store(local, remote)
    return counts


WORDS = ["a", "b", "c", "dd", "é", "É", "12", "\ufeffx", "BZh91AY", "...", "\u00a0"]
texts = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join) | st.sampled_from(["", " ", "\t"]),
    min_size=1,
    max_size=12,
)
choices = st.fixed_dictionaries(
    {
        "min_count": st.integers(1, 3),
        "max_size": st.none() | st.integers(2, 5),
        "boundary": st.sampled_from(["line", "none", "blank"]),
        "oov": st.sampled_from(["keep", "drop", "unk"]),
        "lowercase": st.booleans(),
        "digits": st.sampled_from([None, "0", "NUM"]),
        "keep": st.sampled_from([(), ("b",), ("never",)]),
        "subsample": st.sampled_from([None, None, 1e-1, 1e-3]),
        "random_state": st.integers(0, 3),
        "keep_ids": st.booleans(),
        "tokenizer": st.sampled_from(["whitespace", "words", str.split]),
        "pattern": st.sampled_from([None, None, "[a-z]+"]),
        "wordlist": st.sampled_from([None, None, ["a", "dd"]]),
        "wordlist_exempt": st.integers(1, 4),
        "max_token_bytes": st.sampled_from([None, None, 2]),
    }
)
kinds = st.sampled_from(
    [{"max_lag": 1}, {"max_lag": 4}, {"window": 3}, {"window": 9}, {"window": 3, "weight": "harmonic"}]
)


@needs_dask
@pytest.mark.filterwarnings("ignore:.*longer than max_token_bytes:UserWarning")
@settings(max_examples=60)
@given(st.lists(texts, min_size=1, max_size=3), st.booleans(), choices, kinds, st.integers(1, 40))
def test_every_option_gives_the_bytes_of_the_local_count(tmp_path, client, files, ends, options, kind, part_bytes):
    names = []
    for number, lines in enumerate(files):
        names.append(tmp_path / f"{number}.txt")
        names[-1].write_text("\n".join(lines) + ("\n" if ends else ""), newline="")
    compare(tmp_path, client, names, part_bytes, **options, **kind)


@needs_dask
@pytest.mark.filterwarnings("ignore:.*longer than max_token_bytes:UserWarning")
@pytest.mark.parametrize("more", [{"subsample": 0.1}, {"keep_ids": True}, {"keep_ids": True, "subsample": 0.1}])
@pytest.mark.parametrize("oov", ["keep", "drop", "unk"])
def test_a_text_whose_every_token_is_refused(tmp_path, client, more, oov):
    """The vocabulary then holds words that were asked for only."""
    path = tmp_path / "text"
    path.write_text("... ...\n... ---\n")
    compare(tmp_path, client, [path], 3, keep=("b",), max_token_bytes=2, max_lag=1, min_count=1, oov=oov, **more)


@needs_dask
@pytest.mark.parametrize("options", [{"vocabulary": ["w3", "w1", "w7", "never"]}, {"oov": "unk", "keep_ids": True}])
def test_forms_of_files(tmp_path, client, text, options):
    folder = tmp_path / "folder"
    folder.mkdir()
    raw = text.read_bytes()
    for number in range(12):  # many small files, compressed ones and a large one
        piece = raw[number * 1000 : number * 1000 + 900]
        (folder / f"{number:02}.txt").write_bytes(gzip.compress(piece) if number % 3 == 0 else piece)
    (folder / "big.txt").write_bytes(raw[20_000:90_000])
    for files in (folder, str(folder / "*.txt"), [folder / "big.txt", text, folder / "03.txt"]):
        counts = compare(tmp_path, client, files, 10_000, max_lag=2, **options)
    assert counts.run["parts"] > 15


@needs_dask
def test_a_task_counts_in_segments_under_a_memory_cap(tmp_path, client, text, monkeypatch):
    count_to_store(tmp_path / "local", text, window=5, boundary="none")
    monkeypatch.setattr(segments, "segment_length", lambda plan, n_words: 1009)
    on_dask.count_to_store(
        tmp_path / "remote", text, client, part_bytes=100_000, window=5, boundary="none", memory="64MB"
    )
    same_store(tmp_path / "local", tmp_path / "remote")


@needs_dask
def test_counts_in_memory(client, text):
    here, there = lw.count(text, max_lag=2), on_dask.count(text, client, part_bytes=50_000, max_lag=2)
    assert here.options == there.options and here.vocabulary == there.vocabulary
    for k in (1, 2):
        assert here.lag(k).dtype == there.lag(k).dtype and (here.lag(k) != there.lag(k)).nnz == 0


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"BZh91A", b"\xef\xbb\xbf", b"\x1f\x8b", b"bc "]), max_size=40),
    st.integers(1, 30),
)
def test_parts_are_the_file_cut_behind_line_ends(tmp_path, pieces, part_bytes):
    raw = b"x" + b"".join(pieces)
    file = tmp_path / "file"
    file.write_bytes(raw)
    cut = parts.cut_files([str(file)], part_bytes)
    assert [part.start for part in cut[1:]] == [part.end for part in cut[:-1]]
    assert cut[0].start == 0 and cut[-1].end is None and sum(part.n_bytes for part in cut) == len(raw)
    for part in cut[1:]:
        assert raw[part.start - 1 : part.start] == b"\n" and not raw[part.start :].startswith(
            (b"BZh91A", b"\xef\xbb\xbf")
        )
    if len(raw) > part_bytes and b"\na" in raw[part_bytes - 1 :]:
        assert len(cut) > 1


@needs_dask
def test_bad_text_is_named_by_its_place_in_the_file(tmp_path, client):
    (tmp_path / "a.txt").write_bytes(b"fine\n" * 30)
    (tmp_path / "b.txt").write_bytes(b"one two\n" * 20 + b"three four five \xff six\n" + b"one two\n" * 20)
    for options in ({}, {"tokenizer": str.split}):
        with pytest.raises(UnicodeError, match=r"b\.txt, line 21, byte 16: 0xff"):
            on_dask.count([tmp_path / "a.txt", tmp_path / "b.txt"], client, part_bytes=50, **options)
    with pytest.raises(FileNotFoundError, match="none"):
        on_dask.count(tmp_path / "none", client)
    os.mkfifo(tmp_path / "fifo")
    with open(os.devnull, "rb") as handle:
        for source in ("-", tmp_path / "fifo", handle):
            with pytest.raises(ValueError, match="other processes"):
                on_dask.count(source, client)


@needs_dask
def test_an_error_calls_off_what_has_not_begun(tmp_path, client, text):
    (tmp_path / "bad.txt").write_bytes(b"\xff\n")
    with pytest.raises(UnicodeError):
        on_dask.count([tmp_path / "bad.txt", text], client, part_bytes=1000)
    for _ in range(600):
        if not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("tasks are still known to the scheduler")
    assert on_dask.count(text, client, part_bytes=10_000).n_tokens


@needs_dask
def test_what_was_asked_wrongly(client, text):
    with pytest.raises(TypeError, match=r"unknown options: lines; .*lagwise\.count"):
        on_dask.count(None, client, lines=["a b"])
    with pytest.raises(TypeError, match="client is a int"):
        on_dask.count(text, 3)
    with pytest.raises(ValueError, match="min_count"):
        on_dask.count(text, client, min_count=-1)
    with pytest.raises(ValueError, match="part_bytes"):
        on_dask.count(text, client, part_bytes=0)


def test_without_dask_the_error_names_the_extra(tmp_path, monkeypatch, text):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'lagwise\[distributed\]'"):
        on_dask.count(text, "local")
    with pytest.raises(ImportError, match=r"lagwise\[distributed\]"):
        on_dask.count_to_store(tmp_path / "store", text)
    assert not (tmp_path / "store").exists()


@needs_dask
def test_another_version_on_the_workers_is_refused(client, text, monkeypatch):
    monkeypatch.setattr(on_dask, "__version__", "0.0.1")
    with pytest.raises(RuntimeError, match=r"this process runs 0\.0\.1"):
        on_dask.count(text, client)


@needs_dask
def test_sums_beyond_64_bits_are_refused(client, tmp_path):
    (tmp_path / "text").write_text("a b\n" * 20)
    plan = on_dask._plan({"window": 20, "weight": "harmonic"})
    on_dask._check_sums(np.array([10**10]), plan)
    with pytest.raises(OverflowError, match="64 bits"):
        on_dask._check_sums(np.array([2 * 10**10]), plan)


@pytest.fixture
def cluster():
    """Two workers that are processes of their own; those that wait for a dead one do not wait long."""
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
    ):
        yield cluster


class DiesOnce:
    """A tokenizer that kills the process it runs in, the first time that it meets a word."""

    def __init__(self, flag, word):
        self.flag, self.word = str(flag), word

    def __call__(self, line):
        tokens = line.split()
        if self.word in tokens:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return tokens
            os.kill(os.getpid(), signal.SIGKILL)
        return tokens


@needs_dask
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_that_dies_within_a_task_loses_nothing(tmp_path, cluster, text):
    with text.open("ab") as handle, distributed.Client(cluster) as client:
        if not text.read_bytes().endswith(b"poison\n"):
            handle.write(b"w1 w2 poison\n")
        handle.flush()
        pids = {worker.process.pid for worker in cluster.workers.values()}
        tokenizer = DiesOnce(tmp_path / "died", "poison")
        counts = on_dask.count_to_store(
            tmp_path / "remote", text, client, part_bytes=20_000, tokenizer=tokenizer, keep_ids=True, boundary="none"
        )
        assert (tmp_path / "died").exists() and pids != {worker.process.pid for worker in cluster.workers.values()}
    assert counts.run["parts"] > 10
    count_to_store(tmp_path / "local", text, tokenizer=tokenizer, keep_ids=True, boundary="none")
    same_store(tmp_path / "local", tmp_path / "remote")


@needs_dask
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_killed_between_tasks_loses_nothing(tmp_path, cluster, text, monkeypatch):
    killed = []

    def kill_one(job, futures, description, wait=on_dask._Job._wait):
        if description == "counting pairs":  # when some pairs are counted, results of the victim among them

            def kill():
                while not killed:
                    for worker, state in list(cluster.scheduler.workers.items()):
                        held = [task.key for task in list(state.has_what) if "part_counts" in str(task.key)]
                        left = [f for f in pending if f.status == "pending"]
                        if held and left:
                            process = next(w.process for w in cluster.workers.values() if w.worker_address == worker)
                            os.kill(process.pid, signal.SIGKILL)
                            killed.append((held, len(left)))
                            return
                    time.sleep(0.001)

            pending = list(futures)
            thread = threading.Thread(target=kill, daemon=True)
            thread.start()
            wait(job, futures, description)
            killed.append(None)
            thread.join()
        else:
            wait(job, futures, description)

    monkeypatch.setattr(on_dask._Job, "_wait", kill_one)
    with distributed.Client(cluster) as client:
        on_dask.count_to_store(tmp_path / "remote", text, client, part_bytes=5_000, max_lag=3, oov="unk")
    assert killed[0] is not None, "the count was over before a worker could be killed"
    count_to_store(tmp_path / "local", text, max_lag=3, oov="unk")
    same_store(tmp_path / "local", tmp_path / "remote")


@needs_dask
def test_the_command(tmp_path, text):
    run_cli("count", text, "-o", tmp_path / "local", "--window", 3, "--quiet")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address
        run_cli("count", text, "-o", tmp_path / "remote", "--window", 3, "--dask", address, "--quiet")
    run_cli("count", text, "-o", tmp_path / "own", "--window", 3, "--dask", "local")
    same_store(tmp_path / "local", tmp_path / "remote")
    same_store(tmp_path / "local", tmp_path / "own")
    done = run_cli("count", text, "-o", tmp_path / "x", "--dask", "local", "--resume", check=False)
    assert done.returncode == 1 and "--dask does not go together" in done.stderr


INTERRUPTED = """
import sys, time
from lagwise import distributed
if __name__ == "__main__":
    begun = sys.argv[3]
    def slow(line):
        open(begun, "w").close()
        time.sleep(0.05)
        return line.split()
    try:
        distributed.count_to_store(sys.argv[1], sys.argv[2], "local", tokenizer=slow, part_bytes=2000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@needs_dask
def test_ctrl_c_cancels_and_leaves_nothing(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "store"), str(text), str(begun)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the client and its workers
    assert b"interrupted" in process.communicate(timeout=60)[0]
    assert not [name for name in os.listdir(tmp_path) if name.startswith((".store", "store"))]
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.killpg(process.pid, 0)  # no worker lives on
            time.sleep(0.1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_finalizer_swallowed_is_not_lost():
    from lagwise.distributed import _interrupts

    class Slow:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), _interrupts() as check:
            check()
            Slow()  # Python drops what this raises
            heard = True
            check()
            heard = False
        assert heard and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_sequences_are_joined_across_parts():
    stream = [3, -1, 1, 2, 4, 5, -1, -1, 6, 7]
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            lengths = []
            for piece in (stream[:first], stream[first:second], stream[second:]):
                measured = shards._SequenceLengths()
                for id in piece:
                    measured.add(np.array([id], dtype=np.int32))
                again = shards._SequenceLengths()
                again.add(np.array(piece, dtype=np.int32))
                assert measured.result() == again.result()
                lengths.append(measured.result())
            assert shards.join_sequences(lengths) == 4
