"""Text in columns of table libraries, tokenizers of Hugging Face, and remote paths equal plain lists and files."""

import pickle

import numpy as np
import pytest

import lagwise as lw
from lagwise.counting import count_to_store
from tests.support import same_store

LINES = ["a b c", "", "é b a\tc", "b\nc", "don't stop", " "]
ROWS = [["a", "b c"], [], ["é", "a"], ["don't"]]


def column(library, kind, values):
    """A column of one library and one type; skips where the library is missing."""
    module = pytest.importorskip(library)
    if library == "pandas":
        if kind == "arrow dtype":
            kind = module.ArrowDtype(pytest.importorskip("pyarrow").string())
        elif kind == "string[pyarrow]":
            pytest.importorskip("pyarrow")
        return module.Series(values, dtype=kind, index=range(7, 7 + len(values)))
    if library == "pyarrow":
        kind, chunked = kind
        type_ = getattr(module, kind)()
        return (
            module.chunked_array([values[:2], [], values[2:]], type=type_) if chunked else module.array(values, type_)
        )
    return module.Series("text", values, dtype=getattr(module, kind))


KINDS = [
    *(("pandas", kind) for kind in (object, "string[python]", "string[pyarrow]", "category", "arrow dtype")),
    *(("pyarrow", (kind, chunked)) for kind in ("string", "large_string") for chunked in (False, True)),
    *(("polars", kind) for kind in ("String", "Categorical")),
]


def store(tmp_path, name, **options):
    count_to_store(tmp_path / name, min_count=1, max_lag=2, keep_ids=True, **options)
    return tmp_path / name


@pytest.mark.parametrize("library, kind", KINDS)
def test_a_column_equals_the_list_of_its_values(tmp_path, library, kind):
    for number, options in enumerate(({}, {"tokenizer": "words", "lowercase": True}, {"tokenizer": str.split})):
        given = store(tmp_path, f"column{number}", lines=column(library, kind, LINES), **options)
        same_store(store(tmp_path, f"list{number}", lines=LINES, **options), given)


@pytest.mark.parametrize("library, kind", KINDS)
@pytest.mark.parametrize("row", [0, 1, 4])
def test_a_missing_value_is_an_error_that_names_its_row(library, kind, row):
    values = [*LINES[:row], None, *LINES[row:]]
    with pytest.raises(TypeError, match=rf"row {row} of lines= is .*it is missing: drop such rows, or fill them"):
        lw.count(lines=column(library, kind, values), min_count=1)


def test_a_missing_value_may_be_a_number():
    with pytest.raises(TypeError, match=r"row 1 of lines= is nan \(float\).*missing"):
        lw.count(lines=column("pandas", object, ["a", float("nan")]))
    with pytest.raises(
        TypeError, match=r"row 1 of lines= is 3\.0 \(float\); expected a str or a list of tokens in every row$"
    ):
        lw.count(lines=["a", 3.0])


def test_columns_longer_than_a_slice_are_read_in_order(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    lines = [f"w{i % 97} w{i % 89} w{i % 7}" for i in range(20_011)]
    whole = store(tmp_path, "list", lines=lines)
    same_store(whole, store(tmp_path, "array", lines=pyarrow.array(lines)))
    same_store(whole, store(tmp_path, "chunks", lines=pyarrow.chunked_array([lines[:9000], lines[9000:]])))
    with pytest.raises(TypeError, match="row 20011 of lines= is None"):
        lw.count(lines=pyarrow.array([*lines, None]))


def test_rows_of_tokens(tmp_path):
    whole = store(tmp_path, "list", lines=ROWS)
    same_store(whole, store(tmp_path, "tuples", lines=map(tuple, ROWS)))
    arrays = [np.array(row, dtype=str) for row in ROWS]
    same_store(whole, store(tmp_path, "arrays", lines=arrays))
    for library, make in {
        "pandas": lambda pandas: [pandas.Series(ROWS), pandas.Series(arrays)],
        "pyarrow": lambda pyarrow: [pyarrow.array(ROWS), pyarrow.chunked_array([ROWS[:1], ROWS[1:]])],
        "polars": lambda polars: [polars.Series(ROWS)],
    }.items():
        try:
            module = __import__(library)
        except ImportError:
            continue
        for number, given in enumerate(make(module)):
            same_store(whole, store(tmp_path, f"{library}{number}", lines=given))


def test_a_table_is_no_column():
    for library, make in {
        "pandas": lambda module: module.DataFrame({"text": LINES}),
        "polars": lambda module: module.DataFrame({"text": LINES}),
        "pyarrow": lambda module: module.table({"text": LINES}),
    }.items():
        try:
            module = __import__(library)
        except ImportError:
            continue
        with pytest.raises(TypeError, match=r"a table; give its column that holds the text: lines=table\['text'\]"):
            lw.count(lines=make(module))


def test_columns_are_encoded_like_lists():
    polars = pytest.importorskip("polars")
    vocabulary = lw.count(lines=LINES, min_count=1).vocabulary
    for given in (polars.Series(LINES), polars.Series(LINES).to_arrow() if _has("pyarrow") else LINES):
        for one, other in zip(vocabulary.encode(lines=given), vocabulary.encode(lines=LINES)):
            np.testing.assert_array_equal(one, other)


def _has(library):
    try:
        __import__(library)
    except ImportError:
        return False
    return True


@pytest.fixture
def tokenizer():
    """A trained byte-pair tokenizer."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=40, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator(["low lower lowest", "new newer newest", "wide wider widest"] * 9, trainer)
    return made


def test_a_tokenizer_of_hugging_face(tmp_path, tokenizer):
    lines = ["lower and newest", "the widest, lowest", "", "low new"]
    tokens = [tokenizer.encode(line).tokens for line in lines]
    assert any(len(token) > 1 for token in tokens[0]) and tokens[0] != lines[0].split()
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    ours = lw.count(tmp_path / "text", tokenizer=tokenizer, min_count=1, keep_ids=True)
    plain = lw.count(lines=tokens, min_count=1, keep_ids=True)
    in_memory = lw.count(lines=lines, tokenizer=tokenizer, min_count=1, keep_ids=True)
    for counts in (plain, in_memory):
        assert counts.vocabulary.words == ours.vocabulary.words
        np.testing.assert_array_equal(counts.ids, ours.ids)
        assert (counts.lag(1) != ours.lag(1)).nnz == 0
    assert ours.vocabulary.normalization.tokenizer == "custom"
    assert pickle.loads(pickle.dumps(tokenizer)).encode("low").tokens == tokenizer.encode("low").tokens


def test_the_end_of_a_file_ends_a_sequence_for_every_tokenizer(tmp_path):
    for name in "xy":
        (tmp_path / name).write_text(f"{name} {name}\n{name}")
    for tokenizer in ("whitespace", "words", str.split):
        counts = lw.count([tmp_path / "x", tmp_path / "y"], tokenizer=tokenizer, boundary="none", min_count=1)
        assert counts.lag(1).toarray().tolist() == [[2, 0], [0, 2]] and counts.longest_line == 3


def test_remote_paths_equal_local_files(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    import gzip

    raw = "\n".join(LINES).encode()
    (tmp_path / "text").write_bytes(raw)
    memory = fsspec.filesystem("memory")
    try:
        memory.pipe_file("/lagwise/text", raw)
        memory.pipe_file("/lagwise/text.gz", gzip.compress(raw))
        local = store(tmp_path, "local", source=tmp_path / "text")
        for number, path in enumerate(("memory://lagwise/text", "memory://lagwise/text.gz")):
            same_store(local, store(tmp_path, f"remote{number}", source=path))
        two = [tmp_path / "text", "memory://lagwise/text"]
        assert lw.count(two, min_count=1).n_tokens == 2 * lw.load(local).n_tokens
        with pytest.raises(FileNotFoundError, match="nothing"):
            lw.count("memory://lagwise/nothing")
    finally:
        memory.rm("/lagwise", recursive=True)


def test_remote_paths_without_fsspec(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"s3://bucket/key is a remote path; install fsspec"):
        lw.count("s3://bucket/key")


@pytest.mark.parametrize("form", ["gz", "plain"])
def test_remote_paths_on_a_cluster(tmp_path, form):
    distributed = pytest.importorskip("distributed")
    fsspec = pytest.importorskip("fsspec")
    import gzip

    from lagwise import distributed as on_dask

    raw = "\n".join(f"w{i % 13} w{i % 7} w{i % 3}" for i in range(500)).encode()
    (tmp_path / "text").write_bytes(raw)
    memory = fsspec.filesystem("memory")
    address = "127.0.0.1:0"
    try:
        memory.pipe_file("/lagwise/text", gzip.compress(raw) if form == "gz" else raw)
        with distributed.Client(
            processes=False, n_workers=1, threads_per_worker=1, dashboard_address=address
        ) as client:
            on_dask.count_to_store(
                tmp_path / "remote", "memory://lagwise/text", client, part_bytes=1000, boundary="none"
            )
        count_to_store(tmp_path / "local", tmp_path / "text", boundary="none")
        same_store(tmp_path / "local", tmp_path / "remote")
    finally:
        memory.rm("/lagwise", recursive=True)
