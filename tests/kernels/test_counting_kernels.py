"""Each counting kernel equals its plain twin, over odd sizes, threads, types and read-only input."""

import numpy as np
import pytest
from lagwise._kernels import ids as ids_kernel
from lagwise._kernels import tokens, words

import lagwise as lw
from lagwise import cooccurrence
from lagwise._unicode import UNICODE_VERSION, character_classes

SIZES = [1, 2, 63, 64, 65, 4097]


def stream_of(rng, n_words, n, ends=True):
    stream = rng.zipf(1.5, size=n).astype(np.int64) % (n_words + 1)  # n_words is the gap
    if ends:
        stream[rng.random(n) < 0.05] = -1
    stream[-1] = -1
    stream = stream.astype(np.int32)
    stream.flags.writeable = False
    return stream


def dense_lag(stream, n_words, k):
    out = np.zeros((n_words, n_words), dtype=np.int64)
    for i in range(len(stream) - k):
        if 0 <= stream[i] < n_words and (stream[i : i + k] >= 0).all() and 0 <= stream[i + k] < n_words:
            out[stream[i], stream[i + k]] += 1
    return out


def dense_rows(batches, n_words):
    rows = []
    for lengths, pieces in batches:
        indices = np.concatenate([i for i, _ in pieces])
        values = np.concatenate([v for _, v in pieces])
        place = 0
        for length in lengths:
            row = np.zeros(n_words)
            assert (np.diff(indices[place : place + length]) > 0).all()
            assert (values[place : place + length] != 0).all()
            row[indices[place : place + length]] = values[place : place + length]
            rows.append(row)
            place += length
    return np.array(rows)


@pytest.mark.parametrize("n_words", SIZES[:-1])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 100, 1 << 22])
def test_windows_and_lags(n_words, n_threads, batch, monkeypatch):
    monkeypatch.setattr(cooccurrence, "BATCH_ENTRIES", batch)
    monkeypatch.setattr(cooccurrence, "TASK_ENTRIES", max(1, batch // 7))
    stream = stream_of(np.random.default_rng(n_words), n_words, 700)
    before = stream.tobytes()
    index = cooccurrence.index_stream(stream, n_words, n_threads)
    for w in range(n_words):
        np.testing.assert_array_equal(
            index.positions[index.starts[w] : index.starts[w + 1]], np.flatnonzero(stream == w)
        )
    lags = {k: dense_lag(stream, n_words, k) for k in range(1, 8)}
    for window in (1, 3, 7):
        for weights in (
            np.ones(window, np.uint64),
            np.arange(window, 0, -1).astype(np.uint64),
            np.full(window, 2**40, np.uint64),
            np.r_[0, np.ones(window - 1)].astype(np.uint64),
        ):
            expected = sum(int(g) * lags[k + 1] for k, g in enumerate(weights))
            found = dense_rows(cooccurrence.window_rows(index, weights, n_threads), n_words)
            np.testing.assert_array_equal(found, expected)
        batches = [[] for _ in range(window)]
        for lengths, pieces in cooccurrence.lag_rows(index, window, n_threads):
            for k in range(window):
                batches[k].append((lengths[k], [(i.copy(), v.copy()) for i, v in pieces[k]]))
        for k in range(window):
            np.testing.assert_array_equal(dense_rows(batches[k], n_words), lags[k + 1])
    assert stream.tobytes() == before


@pytest.mark.parametrize("shape", [(1, 1), (63, 64), (65, 130), (5, 4097), (0, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_sums_and_transposes(shape, dtype, n_threads):
    from scipy.sparse import csr_array, random_array

    rng = np.random.default_rng(0)
    given = []
    for _ in range(3):
        A = random_array(shape, density=0.2, rng=rng, format="csr")
        A.data[:] = rng.integers(1, np.iinfo(dtype).max if dtype != np.uint64 else 2**40, size=A.nnz)
        given.append((A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(dtype)))
    dense = [csr_array((d.astype(np.float64), j, p), shape=shape).toarray() for p, j, d in given]
    factors = np.array([1, 3, 2], dtype=np.uint64)
    expected = sum(float(f) * D for f, D in zip(factors, dense))
    np.testing.assert_array_equal(
        dense_rows(cooccurrence.sum_rows(given, factors, shape, n_threads), shape[1]).reshape(shape), expected
    )
    real = np.array([0.5, 0.25, 2.0])
    np.testing.assert_allclose(
        dense_rows(cooccurrence.sum_rows(given, real, shape, n_threads), shape[1]).reshape(shape),
        sum(f * D for f, D in zip(real, dense)),
        rtol=1e-14,
    )
    indptr, indices, data = cooccurrence.transpose(*given[0], shape[1], n_threads)
    assert data.dtype == dtype
    np.testing.assert_array_equal(
        csr_array((data.astype(float), indices, indptr), shape=shape[::-1]).toarray(), dense[0].T
    )


def test_sums_through_maps():
    rng = np.random.default_rng(1)
    A = rng.integers(0, 3, (4, 4))
    rows, columns = np.array([2, -1, 0, 1, 3], np.int32), np.array([4, 0, -1, 2], np.int32)
    from scipy.sparse import csr_array

    sparse = csr_array(A)
    matrix = (
        sparse.indptr.astype(np.int64),
        sparse.indices.astype(np.int32),
        sparse.data.astype(np.uint8),
        rows,
        columns,
    )
    expected = np.zeros((5, 5))
    for new, old in enumerate(rows):
        for column, target in enumerate(columns):
            if old >= 0 and target >= 0:
                expected[new, target] += A[old, column]
    np.testing.assert_array_equal(
        dense_rows(cooccurrence.sum_rows([matrix], np.ones(1, np.uint64), (5, 5), 1), 5), expected
    )


def padded(raw):
    data = np.zeros(len(raw) + tokens.TEXT_PADDING, np.uint8)
    data[: len(raw)] = np.frombuffer(raw, np.uint8)
    data[len(raw)] = 32
    data.flags.writeable = False
    return data


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 100])
def test_words_of_every_length_are_told_apart(n):
    base = bytes(97 + i % 26 for i in range(n))
    variants = [base, *(base[:i] + b"\0" + base[i + 1 :] for i in range(n)), base + b"\0", base + b"x"]
    raw = b" ".join(variants + variants[::-1])
    table, ids = tokens.WordTable(), np.empty(2 * len(variants) + 2, np.int32)
    place, count = table.scan(padded(raw), 0, len(raw), 2**31 - 1, ids)
    assert place == len(raw) and count == 2 * len(variants)
    assert ids[:count].tolist() == [*range(len(variants)), *range(len(variants))[::-1]]
    assert [table.word(i) for i in range(len(table))] == variants
    assert all(table.find(word) == i for i, word in enumerate(variants)) and table.find(b"absent") == -1
    counts = np.empty(len(table), np.int64)
    table.counts(counts)
    assert (counts == 2).all()


def test_tables_grow_and_unite():
    raw = b" ".join(b"w%d" % (i % 30011) for i in range(200_000))
    first, second, ids = tokens.WordTable(4), tokens.WordTable(4), np.empty(200_002, np.int32)
    first.scan(padded(raw), 0, len(raw), 2**31 - 1, ids)
    assert len(first) == 30011 and (ids[:200_000] == np.arange(200_000) % 30011).all()
    second.add(b"other", 5)
    second.add(b"w7", 3)
    moved = np.empty(2, np.int32)
    first.absorb(second, moved)
    counts = np.empty(len(first), np.int64)
    first.counts(counts)
    assert moved.tolist() == [30011, 7] and counts[30011] == 5 and counts[7] == 200_000 // 30011 + 1 + 3


def test_too_little_room_for_ids_is_asked_for_again():
    raw, ids, table, place, found = b"a b\n" * 50, np.empty(7, np.int32), tokens.WordTable(), 0, []
    while place < len(raw):
        place, count = table.scan(padded(raw), place, len(raw), 2**31 - 1, ids)
        found += ids[:count].tolist()
    assert found == [0, 1, -1] * 50


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"plain ascii text that is long",
        "é€😀".encode(),
        b"\x80",
        b"a\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"ok \xf0\x9f\x98",
        b"\xc3",
        b"\xe0\x9f\xbf",
        b"\xff" * 9,
    ],
)
def test_utf8_is_checked_as_python_does(raw):
    for prefix in (b"", b"x" * 7, b"x" * 8, "é".encode() * 5):
        text = prefix + raw
        try:
            text.decode()
            expected = -1
        except UnicodeDecodeError as error:
            expected = error.start
        assert tokens.invalid_utf8(padded(text), 0, len(text)) == expected


def test_kernels_refuse_what_would_run_over():
    ids, table = np.empty(1, np.int32), tokens.WordTable()
    with pytest.raises(ValueError, match="not padded"):
        table.scan(np.zeros(5, np.uint8), 0, 5, 10, np.empty(10, np.int32))
    with pytest.raises(ValueError, match="no room"):
        table.scan(padded(b"a"), 0, 1, 10, ids)
    with pytest.raises(ValueError, match="room too short"):
        words.fold_words(padded(b"abc"), 3, True, 0, np.empty(4, np.uint8))
    with pytest.raises(ValueError, match="no room"):
        ids_kernel.ids_index(
            np.zeros(3, np.int32), 4, np.zeros(2, np.int64), np.zeros(3, np.uint32), np.zeros((1, 4), np.int64), 1
        )


def test_character_classes_are_those_of_their_unicode_version():
    import unicodedata

    from tests.reference import character_classes as made

    classes = character_classes()
    assert classes.shape == (0x110000,) and bytes(classes[[ord(c) for c in " a_.9é"]]) == bytes([1, 2, 3, 0, 2, 2])
    if unicodedata.unidata_version == UNICODE_VERSION:
        from lagwise import _unicode

        assert made.runs() == _unicode._RUNS


def test_examples_of_the_words_tokenizer():
    examples = {
        "don't": "don't",
        "U.S.": "U.S .",
        "3.14": "3.14",
        "1,000": "1,000",
        "well-known": "well-known",
        "(yes!)": "( yes ! )",
        "café.": "café .",
        "a...b": "a . . . b",
        "x_1": "x_1",
        "C++": "C + +",
        "“hi”": "“ hi ”",
        "and/or": "and / or",
    }
    for text, expected in examples.items():
        counts = lw.count(lines=[text], min_count=1, tokenizer="words", keep_ids=True)
        assert [counts.types[i] for i in counts.ids if i >= 0] == expected.split(), text


def test_words_rank_by_count_then_bytes():
    random = np.random.default_rng(0)
    alphabet = [b"a", b"b", b"\xff", b"\0", b"zz"]
    words = list({b"".join(alphabet[i] for i in random.integers(0, 5, random.integers(1, 14))) for _ in range(3000)})
    table = tokens.WordTable()
    counts = random.integers(0, 4, len(words)).astype(np.int64)
    for word in words:
        table.add(word, 0)
    ids = random.permutation(len(words))[: len(words) // 2 + 1].astype(np.int64)
    expected = sorted(ids.tolist(), key=lambda i: (-counts[i], words[i]))
    table.rank(ids, counts)
    assert ids.tolist() == expected
    assert table.texts(ids) == [words[i].decode("utf-8", "surrogateescape") for i in expected]
    with pytest.raises(IndexError):
        table.texts(np.array([len(words)]))
    with pytest.raises(IndexError):
        table.rank(np.array([0, -1]), counts)


@pytest.mark.parametrize("boundary", ["line", "none"])
def test_renumbering_ahead_equals_one_pass(boundary):
    from lagwise.scanning import Scanned
    from lagwise.spool import Pieces
    from lagwise.text import renumber

    random = np.random.default_rng(1)
    for _ in range(200):
        raws = []
        for _ in range(random.integers(1, 8)):
            raw = random.choice([0, 1, 2, -1, -2, -1], random.integers(0, 9)).astype(np.int32)
            raws.append(np.append(raw, ids_kernel.FILE_END).astype(np.int32) if random.random() < 0.3 else raw)
        raws.append(np.array([ids_kernel.FILE_END], dtype=np.int32))
        found = []
        for n_threads in (1, 3):
            pieces = Pieces()
            for raw in raws:
                pieces.append(raw.copy(), 0)
            scanned = Scanned(None, np.zeros(3), pieces, [np.arange(3)])
            ids = np.array([1, 0, ids_kernel.DROP], dtype=np.int32)
            stream, *facts = renumber(scanned, ids, 2, boundary, n_threads=n_threads)
            found.append((stream.read(0, stream.length).tolist(), facts))
        assert found[0] == found[1], raws
