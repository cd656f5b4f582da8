"""Analogies of vectors made by hand."""

import torch

from fleetrec.tasks.skip_gram import analogies


def test_the_answer_completes_the_parallelogram():
    # man, woman, king, queen, and a word far from all of them
    vectors = torch.tensor([[1.0, 0, 0.1], [0, 1, 0.1], [1, 0, 1], [0, 1, 1], [-1, -1, -1]])
    questions = torch.tensor([[0, 1, 2], [1, 0, 3]])
    assert analogies(vectors, questions).tolist() == [3, 2]


def test_the_words_of_the_question_are_no_answers():
    vectors = torch.tensor([[1.0, 0], [1, 0.01], [1, 0.02], [-1, 0]])
    assert analogies(vectors, torch.tensor([[0, 1, 2]])).tolist() == [3]
