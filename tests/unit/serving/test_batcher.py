"""Requests are joined, and every one gets its own answer."""

import asyncio
import threading

import numpy as np
import pytest

from fleetrec.core.errors import DataError, ModelError
from fleetrec.features.values import FeatureValues, IdLists
from fleetrec.serving.batcher import Batcher
from fleetrec.serving.options import BatchOptions
from fleetrec.serving.request_error import RequestError
from making_served import SumPredictor

LONG_S = 60.0


def make_values(*users):
    ids = {
        "user": IdLists(ids=np.array(users)),
        "item": IdLists(ids=np.array([], np.int64), offsets=np.zeros(len(users) + 1, np.int64)),
    }
    dense = {"price": np.zeros((len(users), 1), np.float32)}
    return FeatureValues(num_rows=len(users), ids=ids, dense=dense, num_present={})


def run(work, **options):
    """Run a coroutine function with a batcher; returns its result and the sizes of batches."""
    sizes = []

    async def main():
        loop = asyncio.get_running_loop()
        with Batcher(BatchOptions(**options), loop=loop, on_batch=sizes.append) as batcher:
            return await asyncio.wait_for(work(batcher), LONG_S)

    return asyncio.run(main()), sizes


def test_requests_of_the_same_moment_are_one_batch():
    predictor = SumPredictor()

    async def work(batcher):
        futures = [
            batcher.submit(predictor, make_values(number, -number), ("predict",))
            for number in range(4)
        ]
        return await asyncio.gather(*futures)

    answers, sizes = run(work, max_batch=8, max_delay_s=LONG_S)
    assert [one.outputs["predict"].tolist() for one in answers] == [[n, -n] for n in range(4)]
    assert sizes == predictor.batches == [8]


def test_a_batch_has_at_most_so_many_samples_and_a_larger_request_is_alone():
    predictor = SumPredictor()

    async def work(batcher):
        sizes = (2, 2, 9, 3, 1)
        futures = [
            batcher.submit(predictor, make_values(*range(size)), ("predict",)) for size in sizes
        ]
        return [answer.outputs["predict"].tolist() for answer in await asyncio.gather(*futures)]

    answers, sizes = run(work, max_batch=4, max_delay_s=0.01)
    assert answers == [[*range(size)] for size in (2, 2, 9, 3, 1)]
    assert sizes == [4, 9, 4]


def test_a_request_does_not_wait_for_ever():
    async def work(batcher):
        return await batcher.submit(SumPredictor(), make_values(5), ("logit", "predict"))

    answer, _ = run(work, max_batch=100, max_delay_s=0.001)
    assert answer.outputs["logit"].tolist() == [-5]


def test_requests_for_different_predictors_are_not_joined():
    old, new = SumPredictor(), SumPredictor()

    async def work(batcher):
        first = batcher.submit(old, make_values(1), ("predict",))
        second = batcher.submit(new, make_values(2), ("predict",))
        return await asyncio.gather(first, second)

    answers, _ = run(work, max_batch=2, max_delay_s=0.001)
    assert [one.outputs["predict"].tolist() for one in answers] == [[1], [2]]
    assert (old.batches, new.batches) == ([1], [1])


def test_outputs_are_those_that_each_request_asks_for():
    async def work(batcher):
        predictor = SumPredictor()
        first = batcher.submit(predictor, make_values(1), ("predict",))
        second = batcher.submit(predictor, make_values(2), ("logit",))
        return await asyncio.gather(first, second)

    answers, sizes = run(work, max_batch=2, max_delay_s=LONG_S)
    assert sizes == [2]
    assert [[*one.outputs] for one in answers] == [["predict"], ["logit"]]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (DataError("id 13 is out of range"), 400, "id 13 is out of range"),
        (ModelError("no memory"), 500, "the model failed on this request; see the log"),
        (ZeroDivisionError("oh"), 500, "internal error; see the log of the server"),
    ],
)
def test_a_request_that_fails_does_not_fail_those_it_is_joined_with(error, status, message):
    def fail(ids):
        if 13 in ids.ids:
            raise error

    async def work(batcher):
        predictor = SumPredictor(failure=fail)
        futures = [batcher.submit(predictor, make_values(n), ("predict",)) for n in (1, 13, 3)]
        return await asyncio.gather(*futures, return_exceptions=True)

    answers, _ = run(work, max_batch=3, max_delay_s=LONG_S)
    assert answers[0].outputs["predict"].tolist() == [1]
    assert answers[2].outputs["predict"].tolist() == [3]
    assert isinstance(answers[1], RequestError)
    assert (answers[1].status, str(answers[1])) == (status, message)


def test_a_request_that_was_given_up_is_not_computed():
    began, may_continue = threading.Event(), threading.Event()

    def wait(_ids):
        began.set()
        assert may_continue.wait(LONG_S)

    predictor = SumPredictor(failure=wait)

    async def work(batcher):
        first = batcher.submit(predictor, make_values(1), ("predict",))
        await asyncio.to_thread(began.wait, LONG_S)
        second = batcher.submit(predictor, make_values(2), ("predict",))
        third = batcher.submit(predictor, make_values(3, 3), ("predict",))
        assert batcher.num_waiting == 2
        second.cancel()
        may_continue.set()
        return await asyncio.gather(first, third)

    answers, _ = run(work, max_batch=3, max_delay_s=0.0)
    assert answers[1].outputs["predict"].tolist() == [3, 3]
    assert predictor.batches == [1, 2]


def test_requests_that_wait_are_answered_when_the_batcher_is_closed():
    predictor = SumPredictor()

    async def main():
        loop = asyncio.get_running_loop()
        with Batcher(BatchOptions(max_batch=100, max_delay_s=LONG_S), loop=loop) as batcher:
            future = batcher.submit(predictor, make_values(4), ("predict",))
        return await future

    assert asyncio.run(main()).outputs["predict"].tolist() == [4]


def test_several_threads_compute():
    both = threading.Barrier(2)
    predictor = SumPredictor(failure=lambda _: both.wait(LONG_S))

    async def work(batcher):
        futures = [batcher.submit(predictor, make_values(n), ("predict",)) for n in range(2)]
        return await asyncio.gather(*futures)

    answers, sizes = run(work, max_batch=1, max_delay_s=0.0, num_threads=2)
    assert [one.outputs["predict"].tolist() for one in answers] == [[0], [1]]
    assert sizes == [1, 1]
