"""AUC, log loss and calibration of predicted probabilities."""

# Shape suffixes: B samples, K buckets.

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fleetrec._native import count_predictions
from fleetrec.tasks.metric import Metric

NUM_BUCKETS = 1 << 16
SUMS = ("logloss", "prediction", "label", "absolute_error", "squared_error")

# Groups of buckets in the bucket error: maximum width, and relative error at which one is complete.
MAX_SPAN = 0.01
MAX_RELATIVE_ERROR = 0.05


class BinaryMetric(Metric):
    """AUC, log loss and calibration from histograms of 65,536 equal steps of probability.

    AUC is computed on predictions rounded to such a step; ties count half.
    """

    def __init__(self) -> None:
        self._positives_K = torch.zeros(NUM_BUCKETS, dtype=torch.int64)
        self._negatives_K = torch.zeros(NUM_BUCKETS, dtype=torch.int64)
        self._sums = torch.zeros(len(SUMS), dtype=torch.float64)

    def update(self, predictions_B: Tensor, labels_B: Tensor) -> None:
        """Count a batch of probabilities and 0/1 labels."""
        count_predictions(
            _on_host(predictions_B),
            _on_host(labels_B),
            self._positives_K.numpy(),
            self._negatives_K.numpy(),
            self._sums.numpy(),
        )

    def counters(self) -> dict[str, Tensor]:
        """Return the histograms and sums."""
        return {"positives": self._positives_K, "negatives": self._negatives_K, "sums": self._sums}

    def headline(self) -> dict[str, float]:
        """Return AUC."""
        return {"AUC": self._auc()}

    def compute(self) -> dict[str, float]:
        """Return all values."""
        num_samples = int(self._positives_K.sum() + self._negatives_K.sum())
        if num_samples == 0:
            means = dict.fromkeys(SUMS, math.nan)
        else:
            means = dict(zip(SUMS, (self._sums / num_samples).tolist(), strict=True))
        actual, predicted = means["label"], means["prediction"]
        return {
            "AUC": self._auc(),
            "LOGLOSS": means["logloss"],
            "ACTUAL_CTR": actual,
            "PREDICTED_CTR": predicted,
            "COPC": actual / predicted if predicted > 0 else math.nan,
            "MAE": means["absolute_error"],
            "RMSE": math.sqrt(means["squared_error"]),
            "BUCKET_ERROR": self._bucket_error(),
            "SAMPLES": float(num_samples),
        }

    def _auc(self) -> float:
        """Return the share of (positive, negative) pairs in the right order, ties counting half."""
        positives_K, negatives_K = self._positives_K.double(), self._negatives_K.double()
        pairs = float(positives_K.sum() * negatives_K.sum())
        if pairs == 0:
            return math.nan
        below_K = negatives_K.cumsum(0) - negatives_K
        return float((positives_K * (below_K + 0.5 * negatives_K)).sum()) / pairs

    def _bucket_error(self) -> float:
        """Return the mean relative error of predicted CTR over groups of neighbouring buckets.

        A group grows until its predicted CTR is known to within 5 %; one that spans more than 0.01
        before that is left out.
        """
        shows_K = self._positives_K + self._negatives_K
        used = shows_K.nonzero().flatten()
        begin, shows, clicks, predicted = -1.0, 0.0, 0.0, 0.0
        error_sum, error_shows = 0.0, 0.0
        columns = (used, shows_K[used], self._positives_K[used])
        for bucket, show, click in zip(*(column.tolist() for column in columns), strict=True):
            ctr = (bucket + 0.5) / NUM_BUCKETS
            if begin < 0 or ctr - begin > MAX_SPAN:
                begin, shows, clicks, predicted = ctr, 0.0, 0.0, 0.0
            shows, clicks, predicted = shows + show, clicks + click, predicted + ctr * show
            mean = predicted / shows
            if math.sqrt((1 - mean) / (mean * shows)) < MAX_RELATIVE_ERROR:
                error_sum += abs(clicks / shows / mean - 1) * shows
                error_shows += shows
                begin = -1.0
        return error_sum / error_shows if error_shows else math.nan


def _on_host(values_B: Tensor) -> npt.NDArray[np.float32]:
    values: npt.NDArray[np.float32] = values_B.detach().to("cpu", torch.float32).numpy()
    return np.ascontiguousarray(values)
