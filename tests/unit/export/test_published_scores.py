"""Scores of rows when they were last published."""

import numpy as np

from fleetrec.export.published_scores import RowScores


def make_scores(**by_id):
    ids = np.array([int(name.removeprefix("id_")) for name in by_id], np.uint64)
    return ids, np.array(list(by_id.values()), np.float32)


def test_scores_are_found_by_id_and_0_where_there_are_none():
    scores = RowScores.empty().updated(*make_scores(id_9=3.0, id_2=1.0))
    ids = np.array([2, 5, 9, 2**64 - 1], np.uint64)
    assert scores.of(ids).tolist() == [1.0, 0.0, 3.0, 0.0]
    assert RowScores.empty().of(ids).tolist() == [0.0] * 4


def test_the_last_score_of_an_id_counts():
    scores = RowScores.empty().updated(*make_scores(id_1=1.0, id_2=2.0))
    scores = scores.updated(*make_scores(id_2=5.0, id_3=3.0))
    assert scores.ids_N.tolist() == [1, 2, 3]
    assert scores.scores_N.tolist() == [1.0, 5.0, 3.0]


def test_removed_ids_have_no_score():
    scores = RowScores.empty().updated(*make_scores(id_1=1.0, id_2=2.0))
    assert scores.without(np.array([1, 7], np.uint64)).ids_N.tolist() == [2]
