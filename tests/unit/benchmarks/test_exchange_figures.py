"""What the exchange benchmark makes of bytes that ranks have counted."""

import dataclasses

import numpy as np
import pytest

from benchmarks import criteo_like, exchange
from benchmarks.exchange import Counted
from fleetrec.core.partition import contiguous_block
from fleetrec.data.loader import Loader
from fleetrec.planning.sample import table_ids
from making_phases import phase_of

BATCH_SIZE = 32


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    return criteo_like.cached_parts(folder, num_samples=800, num_parts=1)[0]


def played_out(run) -> list[Counted]:
    """Let ranks take turns at batches, and count what each would send for its rows."""
    phase = phase_of(run.phases[0], run)
    collection = phase.model.embedding_collection()
    (table,) = collection.tables.values()
    store = phase.state.stores[table.name]
    count = run.cluster.num_workers
    sent, steps = np.zeros(count), np.zeros(count, int)
    with Loader(run.phases[0].dataset, seed=0).epoch(0) as batches:
        for number, batch in enumerate(batches):
            rank = number % count
            ids = np.unique(table_ids(batch, collection)[table.name])
            row = 4 * table.dim + 1
            steps[rank] += 1
            sent[rank] += 8 * (count - 1)
            if run.cluster.placement == "replicated":
                sent[rank] += len(ids) * (count - 1) * (16 + row)
                continue
            buckets = store.table.buckets_of(ids)
            for other in set(range(count)) - {rank}:
                its = contiguous_block(1024, other, count)
                asked = int(((buckets >= its.start) & (buckets < its.stop)).sum())
                sent[rank] += asked * (16 + row)
                sent[other] += asked * row
    return [
        Counted(num_steps=s, num_bytes=int(b), seconds=1.0)
        for s, b in zip(steps, sent, strict=True)
    ]


def test_bytes_of_an_exchange_that_is_played_out_are_as_planned(part):
    figures = exchange.measure(part, batch_size=BATCH_SIZE, train=played_out)
    bytes_sent = [figure for figure in figures if figure.unit == "bytes"]
    assert len(bytes_sent) == 4
    assert all(figure.ratio > 0.97 for figure in bytes_sent)
    assert all(figure.value > 0 for figure in figures)


@pytest.mark.parametrize(("factor", "is_met"), [(1.05, True), (1.2, False), (0.8, False)])
def test_a_tenth_more_or_less_is_allowed(part, factor, is_met):
    def train(run):
        counted = played_out(run)
        return [dataclasses.replace(c, num_bytes=int(c.num_bytes * factor)) for c in counted]

    figures = exchange.measure(part, batch_size=BATCH_SIZE, train=train)
    assert {figure.is_met for figure in figures if figure.unit == "bytes"} == {is_met}
