"""Words and the words around them, with negative samples; evaluated on analogies."""

# Shape suffixes: B samples, N negatives, D width, Q questions.

import torch
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch
from fleetrec.tasks.mean_metric import MeanMetric
from fleetrec.tasks.metric import Metric
from fleetrec.tasks.metric_set import MetricSet
from fleetrec.tasks.task import Outputs, Task, output_of

QUESTION = 4  # words: a is to b as c is to d


class SkipGramTask(Task):
    """Learns which words occur together: log losses of ``positive`` and of all ``negatives``.

    For evaluation a batch has one sample for every word, and the feature ``analogies`` lists the
    samples of the words a, b, c and d of each question. The answer is the word whose vector has the
    highest cosine with b - a + c, other than these three; ACC is the share of answers d.
    """

    label = ""

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean over the samples of the sum of their losses."""
        losses_B = _losses(outputs)
        if batch.weights_B is None:
            return losses_B.mean()
        return (losses_B * batch.weights_B).sum() / batch.weights_B.count_nonzero().clamp(min=1)

    def new_metric(self) -> Metric:
        """Return an empty metric."""
        return MetricSet([MeanMetric("LOSS"), MeanMetric("ACC")])

    def count(self, metric: Metric, outputs: Outputs, batch: Batch) -> None:
        """Add a batch: its losses, or the answers to its questions."""
        assert isinstance(metric, MetricSet)
        loss, accuracy = metric.metrics
        assert isinstance(loss, MeanMetric)
        assert isinstance(accuracy, MeanMetric)
        if "analogies" not in batch.ids:
            loss.update(_losses(outputs))
            return
        questions_Q4 = batch.ids["analogies"].values.reshape(-1, QUESTION)
        questions_Q4 = questions_Q4[questions_Q4[:, 0] != questions_Q4[:, 1]]
        answers_Q = analogies(outputs["vector"], questions_Q4[:, : QUESTION - 1])
        accuracy.update((answers_Q == questions_Q4[:, -1]).to(torch.float32))


def analogies(vectors_BD: Tensor, given_Q3: Tensor) -> Tensor:
    """Return answers_Q: the row closest to b - a + c, for the rows a, b and c."""
    unit_BD = functional.normalize(vectors_BD, dim=1)
    first_QD, second_QD, third_QD = unit_BD[given_Q3.T]
    scores_QB = (second_QD - first_QD + third_QD) @ unit_BD.T
    answers_Q: Tensor = scores_QB.scatter(1, given_Q3, float("-inf")).argmax(dim=1)
    return answers_Q


def _losses(outputs: Outputs) -> Tensor:
    positive_B, negatives_BN = output_of(outputs, "positive"), output_of(outputs, "negatives")
    return functional.softplus(-positive_B) + functional.softplus(negatives_BN).sum(dim=1)
