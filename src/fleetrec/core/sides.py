"""Names of the sides of a batch."""

SAMPLE = "sample"  # the side whose rows are the samples
NEGATIVES = "negatives"  # items that were sampled for a batch
