"""Merging, appending, trimming, memory caps and checkpoints: exact, or refused with advice."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lagwise as lw
from lagwise import segments, store
from lagwise.cooccurrence import sum_rows
from lagwise.counting import count_to_store
from tests.support import run_cli, same_store

texts = st.lists(
    st.lists(st.sampled_from("a b c dd é".split()), min_size=1, max_size=9).map(" ".join), min_size=1, max_size=6
)
kinds = st.sampled_from([{"max_lag": 3}, {"window": 4}, {"window": 3, "weight": "harmonic"}])


def equal(first, second, ids=False):
    assert first.vocabulary == second.vocabulary
    np.testing.assert_array_equal(first.unigrams, second.unigrams)
    assert first._facts == second._facts and first.options == second.options
    assert first._matrices.keys() == second._matrices.keys()
    for name, matrix in first._matrices.items():
        for one, other in zip(matrix, second._matrices[name]):
            assert one.dtype == other.dtype, (name, one.dtype, other.dtype)
            np.testing.assert_array_equal(one, other)
    if ids:
        np.testing.assert_array_equal(first.ids, second.ids)
        assert first.types == second.types


@settings(max_examples=60)
@given(texts, texts, texts, kinds)
def test_merge_equals_one_count_in_any_order_and_grouping(a, b, c, kind):
    one, two, three = (lw.count(lines=lines, min_count=1, **kind) for lines in (a, b, c))
    whole = lw.count(lines=[*a, *b, *c], min_count=1, **kind)
    for merged in (lw.merge(one, two, three), lw.merge(three, lw.merge(one, two)), lw.merge(lw.merge(two, three), one)):
        equal(merged, whole)


@settings(max_examples=40)
@given(texts, texts, kinds, st.sampled_from(["keep", "drop", "unk"]))
def test_merge_over_a_fixed_vocabulary(a, b, kind, oov):
    words = ["b", "dd", "zz", *(["<unk>"] if oov == "unk" else [])]
    one, two, whole = (lw.count(lines=lines, vocabulary=words, oov=oov, **kind) for lines in (a, b, [*a, *b]))
    merged = lw.merge(one, two)
    assert merged._facts.pop("n_types") >= whole._facts.pop("n_types") - len(words)
    assert merged._facts.pop("n_cut_types") >= whole._facts.pop("n_cut_types")
    equal(merged, whole)


def test_k19_merge_refuses_what_is_not_exact():
    s1, s2 = lw.count(lines=["a b"], min_count=1), lw.count(lines=["b a c"], min_count=1)
    equal(lw.merge(s1, s2), lw.count(lines=["a b", "b a c"], min_count=1))
    with pytest.raises(ValueError, match="differ in max_lag"):
        lw.merge(s1, lw.count(lines=["a"], min_count=1, max_lag=2))
    with pytest.raises(ValueError, match="normalise text differently"):
        lw.merge(s1, lw.count(lines=["a"], min_count=1, lowercase=True))
    with pytest.raises(ValueError, match="differ in boundary"):
        lw.merge(s1, lw.count(lines=["a"], min_count=1, boundary="none"))
    cut = lw.count(lines=["a a b b"], min_count=2)
    with pytest.raises(ValueError, match="inexact=True"):
        lw.merge(cut, cut)
    loose = lw.merge(cut, cut, inexact=True)
    assert loose.options["inexact"] and loose.unigrams.tolist() == [4, 4]
    with pytest.raises(ValueError, match="inexact=True"):
        lw.merge(loose, loose)


@settings(max_examples=60)
@given(
    texts,
    texts,
    kinds,
    st.sampled_from(["keep", "drop", "unk"]),
    st.sampled_from(["line", "none", "blank"]),
    st.integers(1, 3),
    st.sampled_from([None, 3]),
)
def test_append_with_ids_equals_one_count(a, b, kind, oov, boundary, min_count, max_size):
    options = dict(
        min_count=min_count, max_size=max_size, oov=oov, keep_ids=True, boundary=boundary, keep=["a"], **kind
    )
    import io

    def file(lines):
        return io.BytesIO("\n".join(lines).encode())

    try:
        old, whole = lw.count(file(a), **options), lw.count([file(a), file(b)], **options)
    except ValueError:
        return
    equal(lw.append(old, file(b)), whole, ids=True)


def test_k21_append_without_ids():
    with pytest.raises(ValueError, match="keep_ids=True"):
        lw.append(lw.count(lines=["a a b"], min_count=2), lines=["a"])
    uncut = lw.count(lines=["a a b"], min_count=1)
    equal(lw.append(uncut, lines=["b c"]), lw.count(lines=["a a b", "b c"], min_count=1))
    fixed = lw.count(lines=["a a b"], vocabulary=["a", "c"])
    assert lw.append(fixed, lines=["c"]).unigrams.tolist() == [2, 1]


@settings(max_examples=60)
@given(
    texts,
    kinds,
    st.sampled_from(["keep", "unk", "drop"]),
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from([None, 3, 2]),
)
def test_trim_equals_counting_with_the_limits(lines, kind, oov, before, after, max_size):
    options = dict(oov=oov, keep=["b"], keep_ids=oov == "drop", **kind)
    try:
        loose = lw.count(lines=lines, min_count=before, **options)
        tight = lw.count(lines=lines, min_count=max(before, after), max_size=max_size, **options)
    except ValueError:
        return
    equal(loose.trim(min_count=max(before, after), max_size=max_size), tight)


def test_trim_refuses_what_it_cannot_do():
    counts = lw.count(lines=["a a a b b c"], min_count=2)
    with pytest.raises(ValueError, match="can only cut more"):
        counts.trim(min_count=1)
    with pytest.raises(ValueError, match="no word is left"):
        counts.trim(min_count=9)
    with pytest.raises(ValueError, match="distances"):
        lw.count(lines=["a a a b b c"], min_count=1, oov="drop").trim(min_count=2)


def big_text(path, n_lines=6000, seed=0):
    rng = np.random.default_rng(seed)
    with open(path, "w") as handle:
        for _ in range(n_lines):
            handle.write(" ".join(f"w{n}" for n in rng.zipf(1.2, size=30) if n < 3000) + "\n")
    return path


@pytest.fixture
def short_segments(monkeypatch):
    monkeypatch.setattr(segments, "segment_length", lambda plan, n_words: 10_007 if plan.memory else 1 << 31)


@pytest.mark.parametrize("kind", [{"max_lag": 4}, {"window": 5}, {"window": 5, "weight": "linear", "oov": "drop"}])
def test_k10_k15_a_memory_cap_changes_no_byte(tmp_path, short_segments, kind):
    text = big_text(tmp_path / "text")
    count_to_store(tmp_path / "whole", text, keep_ids=True, **kind)
    count_to_store(tmp_path / "capped", text, keep_ids=True, memory="64MB", n_threads=2, **kind)
    count_to_store(tmp_path / "huge", text, keep_ids=True, memory="512GB", **kind)
    same_store(tmp_path / "whole", tmp_path / "capped")
    same_store(tmp_path / "whole", tmp_path / "huge")
    (tmp_path / "work").mkdir()
    counts = lw.count(text, keep_ids=True, memory="64MB", tmpdir=tmp_path / "work", **kind)
    counts.save(tmp_path / "saved")
    same_store(tmp_path / "whole", tmp_path / "saved")
    del counts
    assert os.listdir(tmp_path / "work") == []
    assert sorted(os.listdir(tmp_path)) == ["capped", "huge", "saved", "text", "whole", "work"]


@pytest.mark.parametrize("value", ["lots", "-1", 5, True, "1 MB", float("nan")])
def test_memory_must_make_sense(value):
    with pytest.raises(ValueError, match="memory is"):
        lw.count(lines=["a"], memory=value)


KILLED = """
import os, sys
from lagwise import segments
from lagwise.counting import count_to_store
segments.segment_length = lambda plan, n_words: 10_007
finish = segments.Checkpoint.segment
def finish_and_die(self, number):
    finish(self, number)
    if number == 5: os.kill(os.getpid(), 9)
segments.Checkpoint.segment = finish_and_die
count_to_store(sys.argv[1], sys.argv[2], checkpoint=sys.argv[3], window=4, keep_ids=True)
"""


def test_a_killed_count_goes_on_from_its_checkpoint(tmp_path, short_segments, monkeypatch):
    text = big_text(tmp_path / "text")
    arguments = [str(tmp_path / "store"), str(text), str(tmp_path / "check")]
    assert subprocess.run([sys.executable, "-c", KILLED, *arguments], timeout=60).returncode == -9
    assert not (tmp_path / "store").exists() and (tmp_path / "check").exists()
    with pytest.raises(ValueError, match="belongs to another count"):
        count_to_store(tmp_path / "store", text, checkpoint=tmp_path / "check", resume=True, window=5, keep_ids=True)
    with pytest.raises(FileExistsError, match="--resume"):
        count_to_store(tmp_path / "store", text, checkpoint=tmp_path / "check", window=4, keep_ids=True)
    counted = []
    monkeypatch.setattr(
        segments.Checkpoint,
        "segment",
        lambda self, number, f=segments.Checkpoint.segment: (counted.append(number), f(self, number)),
    )
    count_to_store(tmp_path / "store", text, checkpoint=tmp_path / "check", resume=True, window=4, keep_ids=True)
    assert counted and min(counted) == 6
    assert not (tmp_path / "check").exists()
    count_to_store(tmp_path / "whole", text, window=4, keep_ids=True)
    same_store(tmp_path / "whole", tmp_path / "store")


@pytest.mark.parametrize("value", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**53 + 1, 2**62])
def test_sums_are_exact_to_64_bits(value):
    one = (np.array([0, 1]), np.array([0], dtype=np.int32), np.array([value], dtype=np.uint64))
    unit = (np.array([0, 1]), np.array([0], dtype=np.int32), np.array([1], dtype=np.uint8))
    ((_, pieces),) = sum_rows([one, unit], np.ones(2, dtype=np.uint64), (1, 1), 1)
    assert int(pieces[0][1][0]) == value + 1
    assert store.narrowest(value).itemsize == (4 if value < 2**32 else 8)


def test_a_store_widens_its_data_only_as_needed(tmp_path):
    for largest in (200, 300, 70_000, 2**33):
        writer = store.ArrayWriter(tmp_path / "data.npy", np.uint64, narrow=True)
        for part in (np.array([1, 2], np.uint64), np.array([largest], np.uint64), np.array([3], np.uint64)):
            writer.append(part)
        entry = writer.close()
        found = np.load(tmp_path / "data.npy")
        assert found.tolist() == [1, 2, largest, 3] and found.dtype == store.narrowest(largest) and entry["length"] == 4
        fresh = store.ArrayWriter(tmp_path / "again.npy", np.uint64, narrow=True)
        fresh.append(found)
        assert fresh.close() == entry


def test_commands_of_stores(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name} x y\n" * 3)
        run_cli("count", tmp_path / f"{name}.txt", "-o", tmp_path / name, "--min-count", 1, "--quiet")
    run_cli("count", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "both", "--min-count", 1)
    run_cli("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "merged")
    same_store(tmp_path / "both", tmp_path / "merged")
    run_cli("count", "--append", tmp_path / "a", tmp_path / "b.txt", "-o", tmp_path / "appended", "--quiet")
    same_store(tmp_path / "both", tmp_path / "appended")
    run_cli("count", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "tight", "--min-count", 4)
    run_cli("trim", tmp_path / "both", "-o", tmp_path / "trimmed", "--min-count", 4)
    same_store(tmp_path / "tight", tmp_path / "trimmed")
    assert "whole" in run_cli("verify", tmp_path / "both").stdout
    raw = bytearray((tmp_path / "both" / "unigrams.npy").read_bytes())
    raw[-8] ^= 1
    (tmp_path / "both" / "unigrams.npy").write_bytes(bytes(raw))
    done = run_cli("verify", tmp_path / "both", check=False)
    assert done.returncode == 1 and "checksum of unigrams.npy" in done.stderr
