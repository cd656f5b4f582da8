"""Every store keeps the contract of ``fleetrec.embedding.store.Store``, with every optimizer."""

import pytest
import torch

from fleetrec._native import optimizer_schema
from fleetrec.embedding.native_store import NativeStore
from fleetrec.embedding.table import Initializer, RowOptimizer, TableConfig
from making import save_store
from reference.row_optimizer import OPTIMIZERS
from reference.store import ReferenceStore

TABLE = TableConfig(name="t", dim=3, initializer=Initializer(scale=0.1))


def make_native_store(optimizer, *, table=TABLE, seed=0):
    return NativeStore(table, RowOptimizer(name=optimizer), seed=seed)


def make_reference_store(optimizer, *, table=TABLE, seed=0):
    return ReferenceStore(table, optimizer, seed=seed)


@pytest.fixture(params=[make_native_store, make_reference_store], ids=["native", "reference"])
def make_store(request):
    return request.param


@pytest.fixture(params=sorted(OPTIMIZERS))
def optimizer(request):
    return request.param


def ids(*values):
    return torch.tensor(values, dtype=torch.int64)


def grads(num_rows, *, seed=0, dim=3):
    return torch.randn(num_rows, dim, generator=torch.Generator().manual_seed(seed))


def train(store, *, steps, first=0, num_ids=8):
    """Pull and push five of ``num_ids`` rows in each step."""
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        chosen = torch.randperm(num_ids, generator=generator)[:5]
        store.pull(chosen, create=True)
        store.push(chosen, grads(5, seed=step), lr=0.1)


@pytest.fixture
def take_over(tmp_path):
    """Let one store go on from where another stands: through files, if it has any."""

    def take_over(store, source):
        if isinstance(source, ReferenceStore):
            store.restore(source.snapshot())
        else:
            store.load(save_store(source, tmp_path / str(len(list(tmp_path.iterdir())))))

    return take_over


def test_a_second_pull_gives_the_same_rows(make_store, optimizer):
    store = make_store(optimizer)
    first = store.pull(ids(1, 2, 3), create=True)
    assert torch.equal(store.pull(ids(1, 2, 3), create=True), first)
    assert len(store) == 3


def test_rows_come_in_the_order_of_the_ids(make_store, optimizer):
    store = make_store(optimizer)
    forward = store.pull(ids(1, 2, 3), create=True)
    assert torch.equal(store.pull(ids(3, 2, 1), create=True), forward.flip(0))


def test_pulled_rows_are_a_copy(make_store, optimizer):
    store = make_store(optimizer)
    rows = store.pull(ids(1), create=True)
    kept = rows.clone()
    rows.fill_(7.0)
    assert torch.equal(store.pull(ids(1), create=True), kept)


def test_a_new_row_depends_on_its_id_and_not_on_who_came_before(make_store, optimizer):
    early, late = make_store(optimizer), make_store(optimizer)
    late.pull(ids(9, 8, 7, 6), create=True)
    assert torch.equal(
        early.pull(ids(5, 4), create=True), late.pull(ids(4, 5), create=True).flip(0)
    )


def test_a_new_row_depends_on_seed_and_table(make_store, optimizer):
    other = TableConfig(name="u", dim=3, initializer=Initializer(scale=0.1))
    stores = [
        make_store(optimizer),
        make_store(optimizer, seed=1),
        make_store(optimizer, table=other),
    ]
    a, b, c = (store.pull(ids(1), create=True) for store in stores)
    assert not torch.equal(a, b)
    assert not torch.equal(a, c)


def test_new_rows_lie_within_the_scale_of_the_initializer(make_store, optimizer):
    rows = make_store(optimizer).pull(torch.arange(200), create=True)
    assert rows.dtype == torch.float32
    assert rows.abs().max() <= 0.1
    assert rows.abs().max() > 0.09
    assert rows.mean().abs() < 0.01


def test_without_create_nothing_is_stored_and_rows_are_zero(make_store, optimizer):
    store = make_store(optimizer)
    assert torch.equal(store.pull(ids(1, 2), create=False), torch.zeros(2, 3))
    assert len(store) == 0


def test_without_create_known_rows_come_beside_zeros(make_store, optimizer):
    store = make_store(optimizer)
    known = store.pull(ids(2), create=True)
    rows = store.pull(ids(1, 2, 3), create=False)
    assert torch.equal(rows, torch.stack([torch.zeros(3), known[0], torch.zeros(3)]))
    assert len(store) == 1


def test_no_ids_give_no_rows(make_store, optimizer):
    store = make_store(optimizer)
    assert store.pull(ids(), create=True).shape == (0, 3)
    store.push(ids(), torch.zeros(0, 3), lr=0.1)
    assert len(store) == 0


def test_push_moves_only_the_pushed_rows(make_store, optimizer):
    store = make_store(optimizer)
    before = store.pull(ids(1, 2, 3), create=True)
    store.push(ids(2), torch.ones(1, 3), lr=0.1)
    after = store.pull(ids(1, 2, 3), create=True)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert bool((after[1] < before[1]).all())


SHRINKING = {name for name in OPTIMIZERS if name.endswith("w") or name.startswith("ftrl")}


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS.keys() - SHRINKING))
def test_a_zero_gradient_moves_nothing_in_a_fresh_row(make_store, optimizer):
    """Not so for those that decay, and for ftrl, whose weights follow from gradients alone."""
    store = make_store(optimizer)
    before = store.pull(ids(1), create=True)
    store.push(ids(1), torch.zeros(1, 3), lr=0.1)
    assert torch.equal(store.pull(ids(1), create=True), before)


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("sgd", [0.1 * 0.5, 0.1 * 0.5]),
        ("adagrad", [0.1, 0.1 / 2**0.5]),  # g / sqrt(g^2), then g / sqrt(2 g^2)
        ("adam", [0.1, 0.1]),  # with a constant gradient, mean / sqrt(mean square) stays 1
    ],
)
def test_two_steps_by_hand(make_store, name, moves):
    store = make_store(name)
    for move in moves:
        before = store.pull(ids(1), create=True)
        store.push(ids(1), torch.full((1, 3), 0.5), lr=0.1)
        moved = before - store.pull(ids(1), create=True)
        torch.testing.assert_close(moved, torch.full((1, 3), move), rtol=1e-5, atol=1e-6)


def test_a_row_counts_its_own_steps(make_store):
    store = make_store("adam")
    store.pull(ids(1, 2), create=True)
    store.push(ids(1), torch.ones(1, 3), lr=0.1)
    store.push(ids(1, 2), torch.ones(2, 3), lr=0.1)
    assert store.snapshot()["state"][:, -1].tolist() == [2.0, 1.0]


def test_ids_use_all_64_bits(make_store, optimizer):
    store = make_store(optimizer)
    edges = ids(0, 1, 2**63 - 1, -(2**63), -1)  # the last two are 2^63 and 2^64 - 1
    rows = store.pull(edges, create=True)
    assert len({tuple(row) for row in rows.tolist()}) == 5
    store.push(ids(-1), torch.ones(1, 3), lr=0.1)
    assert torch.equal(store.pull(edges, create=False)[:4], rows[:4])


def test_a_snapshot_is_ordered_by_unsigned_id(make_store, optimizer):
    store = make_store(optimizer)
    store.pull(ids(-1, 5, 2**63 - 1, -(2**63), 0), create=True)
    assert store.snapshot()["ids"].tolist() == [0, 5, 2**63 - 1, -(2**63), -1]


def test_a_snapshot_does_not_change_with_the_store(make_store, optimizer):
    store = make_store(optimizer)
    train(store, steps=2)
    snapshot = store.snapshot()
    kept = {name: tensor.clone() for name, tensor in snapshot.items()}
    train(store, steps=2)
    assert all(torch.equal(snapshot[name], kept[name]) for name in kept)


def test_a_restored_store_goes_on_as_if_nothing_had_happened(make_store, optimizer, take_over):
    straight, first, second = (make_store(optimizer) for _ in range(3))
    train(straight, steps=20, num_ids=40)
    train(first, steps=12, num_ids=40)
    take_over(second, first)
    train(second, first=12, steps=8, num_ids=40)
    want, got = straight.snapshot(), second.snapshot()
    assert want.keys() == got.keys()
    assert all(torch.equal(want[name], got[name]) for name in want)


def test_a_store_does_not_change_what_it_was_restored_from(make_store, optimizer, take_over):
    first, second = make_store(optimizer), make_store(optimizer)
    train(first, steps=2)
    kept = {name: tensor.clone() for name, tensor in first.snapshot().items()}
    take_over(second, first)
    train(second, steps=2)
    assert all(torch.equal(first.snapshot()[name], kept[name]) for name in kept)


def test_restoring_forgets_what_was_there(make_store, optimizer, take_over):
    store, empty = make_store(optimizer), make_store(optimizer)
    train(store, steps=2)
    take_over(store, empty)
    assert len(store) == 0
    train(store, steps=1)
    train(empty, steps=1)
    assert torch.equal(store.snapshot()["rows"], empty.snapshot()["rows"])


def test_a_store_restored_without_rows_can_be_pulled_from(make_store, optimizer, take_over):
    store = make_store(optimizer)
    take_over(store, make_store(optimizer))
    assert torch.equal(store.pull(ids(1), create=False), torch.zeros(1, 3))


def test_a_store_grows_past_its_first_capacity(make_store, optimizer):
    store = make_store(optimizer)
    early = store.pull(ids(5), create=True)
    store.pull(torch.arange(100, 3000), create=True)
    assert len(store) == 2901
    assert torch.equal(store.pull(ids(5), create=False), early)


def test_every_native_optimizer_has_a_twin():
    assert set(optimizer_schema()) == set(OPTIMIZERS)


def test_native_and_reference_agree_over_many_steps(optimizer):
    fast, slow = make_native_store(optimizer), make_reference_store(optimizer)
    train(fast, steps=50)
    train(slow, steps=50)
    want, got = slow.snapshot(), fast.snapshot()
    assert torch.equal(want["ids"], got["ids"])
    for column in want:
        torch.testing.assert_close(got[column], want[column], rtol=1e-5, atol=1e-6)


TORCH_OPTIMIZERS = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "adagrad": lambda weights: torch.optim.Adagrad(weights, lr=0.1, eps=1e-6),
    "adam": lambda weights: torch.optim.Adam(weights, lr=0.1),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=0.1, weight_decay=0.01),
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "rmsprop": lambda weights: torch.optim.RMSprop(weights, lr=0.1, alpha=0.99, eps=1e-8),
}


@pytest.mark.parametrize("name", TORCH_OPTIMIZERS)
def test_each_row_moves_as_a_torch_parameter_of_its_own(make_store, name):
    store = make_store(name)
    weights = [torch.nn.Parameter(row) for row in store.pull(torch.arange(6), create=True)]
    optimizers = [TORCH_OPTIMIZERS[name]([weight]) for weight in weights]
    for step in range(50):
        chosen = torch.randperm(6, generator=torch.Generator().manual_seed(step))[:3]
        grads_ND = grads(3, seed=step)
        store.push(chosen, grads_ND, lr=0.1)
        for i, grad in zip(chosen.tolist(), grads_ND, strict=True):
            weights[i].grad = grad
            optimizers[i].step()
    want = torch.stack([weight.detach() for weight in weights])
    rows = store.pull(torch.arange(6), create=False)
    torch.testing.assert_close(rows, want, rtol=1e-6, atol=1e-6)


def test_lazy_adam_is_sparse_adam_where_all_rows_are_touched(make_store):
    store = make_store("adam")
    weights = torch.nn.Parameter(store.pull(torch.arange(4), create=True))
    sparse_adam = torch.optim.SparseAdam([weights], lr=0.1)
    for step in range(50):
        grads_ND = grads(4, seed=step)
        store.push(torch.arange(4), grads_ND, lr=0.1)
        with torch.sparse.check_sparse_tensor_invariants(enable=True):
            weights.grad = torch.sparse_coo_tensor(torch.arange(4)[None], grads_ND, (4, 3))
        sparse_adam.step()
    rows = store.pull(torch.arange(4), create=False)
    torch.testing.assert_close(rows, weights.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["rows", "state", "shows", "last_seen"])
def test_columns_that_lack_a_row_are_refused(name):
    store = make_native_store("adam")
    store.pull(ids(1, 2), create=True)
    taken = {column: value.numpy() for column, value in store.snapshot().items()}
    columns = {key: taken[key] for key in ("ids", "rows", "state", "shows", "clicks", "last_seen")}
    store.clear()
    with pytest.raises(ValueError, match="do not have the shapes of the table"):
        store.table.add_rows(**columns | {name: columns[name][1:]})
    assert len(store) == 0


@pytest.mark.parametrize("steps", [-5.0, float("nan"), float("inf"), 1e9])
def test_a_count_of_steps_that_cannot_be_does_no_harm(steps):
    store = make_native_store("adam")
    state = torch.zeros(1, 7)
    state[:, -1] = steps
    rows = torch.ones(1, 3).numpy()
    store.table.add_rows(ids=ids(1).numpy(), rows=rows, state=state.numpy())
    store.push(ids(1), torch.ones(1, 3), lr=0.1)
    assert torch.isfinite(store.pull(ids(1), create=False)).all()


@pytest.mark.parametrize("dim", [2**16 + 1, 2**40])
def test_a_width_that_cannot_be_is_refused(dim):
    with pytest.raises(ValueError, match="dim must be from 1 to 65536"):
        make_native_store("sgd", table=TableConfig(name="t", dim=dim))


def test_an_id_that_occurs_often_in_a_push_gets_the_sum(make_store, optimizer):
    once, often = make_store(optimizer), make_store(optimizer)
    for store in (once, often):
        store.pull(ids(1, 2), create=True)
    once.push(ids(1, 2), torch.tensor([[3.0] * 3, [1.0] * 3]), lr=0.1)
    often.push(ids(1, 2, 1), torch.tensor([[1.0] * 3, [1.0] * 3, [2.0] * 3]), lr=0.1)
    assert torch.equal(once.snapshot()["rows"], often.snapshot()["rows"])


def test_a_gradient_of_an_id_without_a_row_is_dropped(make_store, optimizer):
    store = make_store(optimizer)
    store.push(ids(7), torch.ones(1, 3), lr=0.1)
    assert len(store) == 0
