"""Slow, obvious twins of the figures of predicted probabilities."""

import math

NUM_BUCKETS = 65536


def pair_auc(predictions, labels):
    """Return the share of (positive, negative) pairs in the right order, ties counting half."""
    positives = [p for p, y in zip(predictions, labels, strict=True) if y == 1]
    negatives = [p for p, y in zip(predictions, labels, strict=True) if y == 0]
    if not positives or not negatives:
        return math.nan
    won = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p in positives for n in negatives)
    return won / (len(positives) * len(negatives))


def bucket_error(predictions, labels):
    """Walk the samples in order of their bucket, closing a group once its CTR is certain."""
    buckets = {}
    for p, y in zip(predictions, labels, strict=True):
        buckets.setdefault(min(int(p * NUM_BUCKETS), NUM_BUCKETS - 1), []).append(y)
    group, first, accepted = [], None, []
    for bucket in sorted(buckets):
        ctr = (bucket + 0.5) / NUM_BUCKETS
        if first is not None and ctr - first > 0.01:
            group, first = [], None
        first = ctr if first is None else first
        group = group + [(ctr, y) for y in buckets[bucket]]
        predicted = sum(ctr for ctr, _ in group) / len(group)
        if math.sqrt((1 - predicted) / (predicted * len(group))) < 0.05:
            actual = sum(y for _, y in group) / len(group)
            accepted.append((len(group), abs(actual / predicted - 1)))
            group, first = [], None
    if not accepted:
        return math.nan
    return sum(n * error for n, error in accepted) / sum(n for n, _ in accepted)
