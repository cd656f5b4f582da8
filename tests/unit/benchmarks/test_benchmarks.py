"""The benchmarks run and tell the truth about what they did; how fast is not asked here."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import (
    criteo_like,
    end_to_end,
    fbgemm,
    large,
    parameter_server,
    readers,
    run,
    saving,
    saving_served,
    served_steps,
    slot_text,
    store,
)
from benchmarks.criteo_like import CARDINALITIES, LABEL, SPARSE
from benchmarks.figure import Figure
from benchmarks.job import dataset
from fleetrec._native import SlotParser
from fleetrec.data.loader import Loader

NUM_SAMPLES = 300


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> list[Path]:
    return criteo_like.cached_parts(
        tmp_path_factory.mktemp("bench"), num_samples=NUM_SAMPLES, num_parts=3
    )


def make_figure(**changes) -> Figure:
    return Figure(**{"name": "speed", "values": [1.0], "unit": "rows/s", **changes})


def test_the_parts_hold_all_samples_and_every_feature_has_its_own_ids(parts):
    text = b"".join(part.read_bytes() for part in parts)
    parser = SlotParser([LABEL, *SPARSE], [(criteo_like.DENSE, criteo_like.NUM_DENSE)])
    parsed = parser.parse([text])
    assert parsed.num_samples == NUM_SAMPLES
    assert parsed.seen.tolist() == [NUM_SAMPLES] * (1 + len(SPARSE) + 1)
    first = 0
    for ids, cardinality in zip(
        parsed.ids.reshape(-1, NUM_SAMPLES)[1:], CARDINALITIES, strict=True
    ):
        assert first <= ids.min() and ids.max() < first + cardinality
        first += cardinality
    assert set(parsed.ids[:NUM_SAMPLES].tolist()) == {0, 1}


def test_the_same_seed_draws_the_same_samples():
    assert criteo_like.draw_samples(50).to_text(0, 50) == criteo_like.draw_samples(50).to_text(
        0, 50
    )


def test_cached_parts_are_written_once(parts):
    written = [part.stat().st_mtime_ns for part in parts]
    again = criteo_like.cached_parts(
        parts[0].parent.parent, num_samples=NUM_SAMPLES, num_parts=len(parts)
    )
    assert again == parts
    assert [part.stat().st_mtime_ns for part in again] == written


def test_the_python_loop_finds_what_the_parser_finds(parts):
    samples = slot_text.parse_in_python(parts[0].read_text())
    parser = SlotParser([LABEL, *SPARSE], [(criteo_like.DENSE, criteo_like.NUM_DENSE)])
    parsed = parser.parse([parts[0].read_bytes()])
    slots = [LABEL, *SPARSE]
    assert [s[slot] for slot in slots for s in samples] == [[i] for i in parsed.ids.tolist()]
    assert [s[criteo_like.DENSE] for s in samples] == pytest.approx(parsed.dense[0], rel=1e-6)


def test_the_python_loop_pads_what_a_line_lacks():
    (sample,) = slot_text.parse_in_python("click:1 2:7 unknown:3\n")
    assert (sample["click"], sample["1"], sample["2"]) == ([1], [0], [7])
    assert sample[criteo_like.DENSE] == [0] * criteo_like.NUM_DENSE


@pytest.mark.slow
@pytest.mark.multiprocess
def test_parameter_servers_are_measured(parts, monkeypatch):
    monkeypatch.setattr(served_steps, "WARM_BYTES", 1 << 20)
    figures = parameter_server.measure(parts, batch_size=32, num_rounds=1, hidden=(8,))
    assert all(figure.value > 0 for figure in figures)
    assert [figure.name for figure in figures if figure.target is not None] == [
        "server: 1 + 1, sync",
        "server: 1 + 1, async",
        "server: 1 + 1, async, pull_ahead",
        "server: journal over none",
    ]


def test_slot_text_is_measured(parts):
    figures = slot_text.measure(parts, batch_size=32, num_rounds=1)
    assert all(figure.value > 0 for figure in figures)
    assert [figure.ratio > 0 for figure in figures if figure.ratio is not None] == [True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # FBGEMM's, if it is installed
def test_training_end_to_end_is_measured(parts):
    said: list[str] = []
    figures = end_to_end.measure(parts, batch_size=32, num_rounds=2, hidden=(8,), say=said.append)
    assert all(figure.value > 0 for figure in figures)
    targets = [figure.target for figure in figures if figure.ratio]
    alone = [0.85, None, None, None, None]
    assert targets == (alone if said else [*alone, 1.2, None])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_loop_on_fbgemm_learns(parts):
    if not fbgemm.is_installed():
        pytest.skip(fbgemm.INSTALL)
    loop = fbgemm.FbgemmLoop(hidden=(8,))
    with Loader(dataset(parts[0], batch_size=100), seed=0).epoch(0) as batches:
        batch = next(iter(batches))
    losses = [float(loop.step(batch)) for _ in range(50)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # FBGEMM's, if it is installed
def test_the_store_is_measured():
    said: list[str] = []
    figures = store.measure(
        batch_size=16, num_rounds=2, num_ids=2600, growth_rows=500, say=said.append
    )
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)
    assert [figure.target for figure in figures[:2]] == [4.0, 4.0]
    names = [figure.name for figure in figures]
    assert ("store: rowwise_adagrad over FBGEMM" in names) != bool(said)


def test_steps_beside_a_write_are_measured():
    figures = saving.measure(batch_size=16, num_rounds=1, num_ids=2600)
    assert [figure.name.partition(": median")[0] for figure in figures] == [
        f"saving: {who}, {kind}" for who in ("trainer", "server") for kind in ("base", "delta")
    ]
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_steps_of_a_worker_beside_writes_of_its_server_are_measured(parts, monkeypatch):
    monkeypatch.setattr(served_steps, "WARM_BYTES", 1 << 20)
    num_ids = criteo_like.NUM_IDS
    monkeypatch.setattr(saving_served, "_every_id", lambda _: parts[0].read_text())
    monkeypatch.setattr(saving_served, "SNAPSHOT_BYTES_PER_ROW", 0.1)
    monkeypatch.setattr(saving_served, "MODES", ("sync",))
    figures = saving_served.measure(parts, batch_size=32, num_ids=num_ids, hidden=(8,))
    assert [figure.name.partition(": median")[0] for figure in figures] == [
        f"saving: 1 + 1, sync, {kind}" for kind in ("own snapshot", "base", "delta")
    ]
    assert all(figure.value > 0 and figure.ratio > 0 for figure in figures)


@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_the_store_and_torch_do_the_same_work(optimizer):
    make_torch = {"adam": store.sparse_adam, "adagrad": store.adagrad}[optimizer]
    batches = store.Batches(num_ids=260, batch_size=16)
    ours = store.NativeStep(batches, optimizer=optimizer, static=True)
    theirs = store.EmbeddingBagStep(batches, make_torch)
    ids_N = np.arange(batches.num_ids)
    theirs.bag.weight.data.copy_(torch.from_numpy(ours.table.pull(ids_N, create=False)))
    for contender in (ours, theirs):
        contender.step(0)
    moved = torch.from_numpy(ours.table.pull(ids_N, create=False))
    # SparseAdam's eps means another thing than Adam's; it shows where gradients nearly cancel.
    differences = (moved - theirs.bag.weight.data).abs().flatten()
    assert differences.quantile(0.95) < 1e-5


def test_a_large_table_is_measured():
    figures = {figure.name.partition(",")[0]: figure for figure in large.measure(num_rows=20_000)}
    paces = ("store: growth", "large: insert", "large: write a base", "large: read the base")
    assert all(figures[name].value > 0 for name in paces)
    assert figures["large: bytes per row beyond weights and state"].ratio is not None


def test_a_large_table_that_comes_back_changed_is_noticed():
    table = store.new_table(dim=large.DIM, optimizer=large.OPTIMIZER)
    ids_N = store.scatter_ids(np.arange(1000))
    table.pull(ids_N, create=True)
    sample = large.Sample(table)
    sample.check(table)
    table.push(ids_N, np.ones((1000, large.DIM), np.float32), lr=0.1)
    with pytest.raises(AssertionError, match="rows came back changed"):
        sample.check(table)


@pytest.mark.parametrize(
    ("ratio", "target", "is_met"), [(2.0, 1.0, True), (0.5, 1.0, False), (2.0, None, None)]
)
def test_a_figure_knows_whether_its_target_is_met(ratio, target, is_met):
    assert make_figure(ratios=[ratio], target=target).is_met is is_met


def test_the_command_writes_results(tmp_path, capsys):
    sizes = ["--rows", "100", "--batch-size", "16", "--rounds", "1"]
    run.main(["--only", "slot_text", *sizes, "--cache", str(tmp_path)])
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["rows"] == 100
    assert all(figure["value"] > 0 for figure in results["figures"])
    assert "native parser" in capsys.readouterr().out


def test_a_size_of_zero_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.main(["--rounds", "0"])
    assert "expected a whole number from 1 on, got '0'" in capsys.readouterr().err


def test_readers_are_measured_on_the_same_samples(tmp_path):
    parts = criteo_like.cached_parts(tmp_path, num_samples=600, num_parts=2)
    said: list[str] = []
    figures = readers.measure(parts, batch_size=64, num_rounds=1, say=said.append)
    by_name = {figure.name.removeprefix("readers: "): figure for figure in figures}
    records = "tfrecord" if said else "tfrecord over tfrecord"
    compared = {"csv over pyarrow", "parquet over pyarrow", records} - {"tfrecord"}
    assert {name for name, figure in by_name.items() if figure.ratios} == compared
    others = {"slot_text", "arrow", records, "wire_text", "libffm", "pipe"}
    assert by_name.keys() == compared | others
    assert all(figure.value > 0 for figure in figures)


@pytest.mark.parametrize("name", ["csv", "parquet", "arrow", "tfrecord", "wire_text", "pipe"])
def test_every_format_of_the_readers_has_the_same_samples(tmp_path, name):
    parts = criteo_like.cached_parts(tmp_path, num_samples=600, num_parts=2)
    path = readers._files(parts, batch_size=64)[name]
    source = parts[0].parent if name in readers.LONG else parts[0]
    want, got = (
        [batch_contents(batch) for batch in batches_of(options)]
        for options in (
            dataset(source, batch_size=64),
            readers._options(name, path, batch_size=64),
        )
    )
    assert [ids for ids, _ in got] == [ids for ids, _ in want]
    for (_, numbers), (_, wanted) in zip(got, want, strict=True):
        assert numbers == pytest.approx(wanted, rel=1e-5)


def batches_of(options):
    with Loader(options, seed=0).epoch(0) as batches:
        return list(batches)


def batch_contents(batch):
    return batch.ids.values_N.tolist(), batch.dense[criteo_like.DENSE].flatten().tolist()
