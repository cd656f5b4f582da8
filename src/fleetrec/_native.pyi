"""The native parts of FleetRec."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, up to half a gigabyte, for the next batch."""

def set_num_threads(count: int) -> None:
    """Set how many threads native loops have that the calling thread starts."""

def flush_denormals(*, is_on: bool) -> bool:
    """Set whether denormals are flushed to zero, in this thread and its OpenMP threads.

    Returns:
        The previous setting of this thread.
    """

def cut_lines(text: Buffer, begin: int, max_lines: int) -> tuple[int, int]:
    """Find where ``max_lines`` lines from ``begin`` on end.

    Returns:
        The offset just past the last newline taken, or the length of the text if it has fewer;
        and the number of newlines taken.

    Raises:
        ValueError: ``begin`` is after the end of the text.
    """

def write_examples(
    sparse: Sequence[str],
    ids: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    dense: Sequence[tuple[str, npt.NDArray[np.float32]]],
    num_samples: int,
) -> bytes:
    """Return samples as TFRecords of tf.Example messages.

    Args:
        sparse: Names of the columns of ids.
        ids: All lists of the first column, then of the second.
        offsets: Where lists begin in ``ids``, and one more.
        dense: Names and numbers, one row per sample.
        num_samples: How many there are.

    Raises:
        ValueError: The sizes do not match.
    """

def add_bias_relu(x: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> None:
    """Add a bias to every row, then apply ReLU, in place.

    Raises:
        ValueError: There is not one bias per column.
    """

def bias_relu_backward(
    grad: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    passed: npt.NDArray[np.float32],
    bias_grad: npt.NDArray[np.float32],
) -> None:
    """Compute the gradients of ``add_bias_relu``.

    Args:
        grad: Gradient of the output.
        y: Output of ``add_bias_relu``.
        passed: Receives the gradient of the input; may be ``grad`` itself.
        bias_grad: Receives the gradient of the bias.

    Raises:
        ValueError: The shapes do not match.
    """

def add_bias_relu_dot(
    x: npt.NDArray[np.float32],
    bias: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    dots: npt.NDArray[np.float32],
) -> None:
    """Apply ``add_bias_relu``, then compute the dot product of every row with ``weights``.

    Raises:
        ValueError: There is not one bias and one weight per column, and one product per row.
    """

def bias_relu_dot_backward(
    grad: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    bias_grad: npt.NDArray[np.float32],
    weight_grad: npt.NDArray[np.float32],
) -> None:
    """Compute the gradients of ``add_bias_relu_dot``.

    Args:
        grad: Gradient of the dot products, one number per row.
        y: ``x`` after ``add_bias_relu_dot``; receives the gradient of x.
        weights: Weights of the dot products.
        bias_grad: Receives the gradient of the bias.
        weight_grad: Receives the gradient of the weights.

    Raises:
        ValueError: The shapes do not match.
    """

def has_tiles() -> bool:
    """Return whether processor and system let this process multiply by tiles (AMX)."""

def multiply(
    a: npt.NDArray[np.float32],
    b: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
    *,
    num_pieces: int,
    adds: bool = False,
) -> None:
    """Write the product of two matrices to ``out``, or add it to ``out``, using AMX tiles.

    Args:
        a: Contiguous in one dimension.
        b: Contiguous in one dimension.
        out: Its rows are contiguous.
        num_pieces: The number of bfloat16 that each float32 is split into, 1 to 3.
        adds: Add to ``out`` instead of overwriting it.

    Raises:
        RuntimeError: The processor has no tiles.
        ValueError: Shapes or strides do not match.
    """

def count_predictions(
    predictions: npt.NDArray[np.float32],
    labels: npt.NDArray[np.float32],
    positives: npt.NDArray[np.int64],
    negatives: npt.NDArray[np.int64],
    sums: npt.NDArray[np.float64],
) -> None:
    """Add predicted probabilities with 0/1 labels to histograms and sums, in place.

    Args:
        predictions: Probabilities; beyond 0 or 1 they count in the last bucket on their side.
        labels: One for each.
        positives: By equal steps of probability, samples with label 1.
        negatives: The same, with label 0.
        sums: Of log loss, prediction, label, absolute error and squared error.

    Raises:
        ValueError: The sizes do not match.
    """

def select_rows(
    blocks: Sequence[
        tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32] | None, int]
    ],
    num_columns: int,
    rows: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
    """Pick samples out of blocks of id lists, in the order of ``rows``.

    A block is (ids, offsets, weights, num_samples), laid out as in ``ParsedSlots``; rows are
    numbered through all blocks. Returns ids, offsets and weights; weights are None if no block has
    any, and 1 for ids of blocks without.

    Raises:
        ValueError: The offsets of a block do not fit.
        IndexError: A row that no block has.
    """

class CellError(ValueError):
    """A cell of a text column that cannot be read.

    Attributes:
        row: Which cell, from 0.
        text: The value, at most 80 characters of it. Bytes that are not UTF-8 are replaced.
        reason: What was expected and what came.
    """

    row: int
    text: str
    reason: str

def fingerprint64(text: str | bytes) -> int:
    """Return FarmHash's Fingerprint64 of bytes, or of the UTF-8 of a text; unsigned."""

def hash_text(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64], text: npt.NDArray[np.uint8]
) -> npt.NDArray[np.int64]:
    """Return the fingerprint of every cell of an Arrow text column, as the bits of int64.

    Cell ``i`` is ``text[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: The offsets leave the text.
    """

def parse_id_cells(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
    *,
    list_separator: bytes | None,
    weight_separator: bytes | None,
    prefix: bytes | None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
    """Return the ids of all cells, where the list of each cell starts and ends, and weights.

    Integers of -2^63 .. 2^64-1 are ids themselves, other text is hashed; with ``prefix`` all text
    is hashed after it. Empty values are left out. A weight follows the last
    ``weight_separator`` of a value; without one it is 1.

    Raises:
        CellError: A weight that is no number or has no id.
        ValueError: The offsets leave the text, or a separator is not one byte.
    """

def parse_number_cells(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
    *,
    list_separator: bytes | None,
    width: int,
    padding: float,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Return ``width`` numbers for every cell, and whether it has any; else they are padding.

    Raises:
        CellError: A value that is no finite decimal number, or another number of values.
        ValueError: The offsets leave the text, or the separator is not one byte.
    """

class SlotTextError(ValueError):
    """Text that does not keep to the grammar of its format; points at the first bad token.

    Attributes:
        segment: Index of the segment.
        line: Line within the segment, from 0.
        column: Where the token starts in its line, in bytes, from 1.
        token: The token, at most 80 characters of it; the slot name if the number of dense values
            is what is wrong. Bytes that are not UTF-8 are replaced.
        reason: What was expected and what came.
    """

    segment: int
    line: int
    column: int
    token: str
    reason: str

@final
class ParsedSlots:
    """The samples of one ``parse`` call. The arrays own their memory."""

    @property
    def num_samples(self) -> int:
        """Lines, empty ones included, or records."""

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """All ids, feature-major: sparse slot 0 of every sample, then slot 1, and so on."""

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where lists start and end in ``ids``.

        Sample ``i`` of sparse slot ``s`` owns ``ids[offsets[k]:offsets[k + 1]]`` with
        ``k = s * num_samples + i``.
        """

    @property
    def weights(self) -> npt.NDArray[np.float32] | None:
        """One weight per id, in a format that has weights."""

    @property
    def dense(self) -> list[npt.NDArray[np.float32]]:
        """One array of ``num_samples`` rows per dense slot, as wide as the slot."""

    @property
    def seen(self) -> npt.NDArray[np.int64]:
        """In how many samples each declared slot occurred, sparse slots before dense ones."""

    @property
    def padded(self) -> npt.NDArray[np.int64]:
        """Places in ``ids`` of those that stand for a slot that a sample lacks."""

    @property
    def undeclared(self) -> dict[str, int]:
        """Tokens of slots that were not declared, by slot name; in records, the records."""

    @property
    def num_empty(self) -> int:
        """Lines of nothing but white space, or records of no feature: samples of paddings."""

@final
class SlotParser:
    """Turns slot text into arrays. Threads may share one: it keeps nothing between calls.

    A line is a sample. White space at its ends is stripped, the rest is split at blanks, and a
    token reads ``slot:value``; what follows a second ``:`` is ignored. Sparse values are integers
    of -2^63 .. 2^64-1, kept as their 64 bits; dense values are finite decimal numbers, rounded as
    ``np.float32(float(text))`` does. Slots may come in any order and repeat. A declared slot that
    a line lacks is padded; a dense slot that occurs must have all its values.
    """

    def __init__(
        self, sparse: Sequence[str], dense: Sequence[tuple[str, int]], padding: int = 0
    ) -> None:
        """Declare the slots.

        Args:
            sparse: Names of the slots that hold ids.
            dense: Names and widths of the slots that hold numbers.
            padding: The id, or the number, of a slot that a line lacks.

        Raises:
            ValueError: A name is empty, declared twice or holds ``:``, a blank or a newline, or a
                width is below 1.
        """

    def parse(self, segments: Sequence[Buffer], *, num_threads: int = 1) -> ParsedSlots:
        """Parse segments of whole lines as one text, without the GIL.

        The last line of a segment may lack its newline. An empty segment has no line.

        Raises:
            SlotTextError: At the first bad token. Within a line, a wrong number of dense values
                comes after all bad tokens.
        """

@final
class WireParser:
    """Turns wire text into arrays. Threads may share one: it keeps nothing between calls.

    A line is a sample: for each dense slot, then for each sparse slot, the number of its values and
    the values, separated by blanks or tabs. Values are as in ``SlotParser``. A count of 0 is a slot
    that is missing; a dense slot has all its values or none.
    """

    def __init__(
        self, sparse: Sequence[str], dense: Sequence[tuple[str, int]], padding: int = 0
    ) -> None:
        """Declare the slots.

        Raises:
            ValueError: A width is below 1.
        """

    def parse(self, segments: Sequence[Buffer], *, num_threads: int = 1) -> ParsedSlots:
        """Parse segments of whole lines as one text, without the GIL.

        Raises:
            SlotTextError: At the first bad token.
        """

@final
class SvmParser:
    """Turns the text of libsvm or libffm into arrays; threads may share one.

    A line is a sample: its label, then ``index:value`` or ``field:index:value``, separated by
    blanks or tabs. An index is an id, its value the weight of the id. Text from a token that begins
    with ``#`` on is not read; an empty line is a sample in which everything is missing.
    """

    def __init__(
        self,
        *,
        label: str,
        is_dense_label: bool,
        slots: Sequence[str],
        has_fields: bool,
        padding: int = 0,
    ) -> None:
        """Declare the slots.

        Args:
            label: Name of the label, for messages.
            is_dense_label: The label is the one dense slot, of width 1; else the first sparse one.
            slots: The sparse slots after the label: the fields, or the one that holds all ids.
            has_fields: Tokens name their field.
            padding: The id, or the number, of a slot that a line lacks.

        Raises:
            ValueError: A slot is impossible, or not one is given where tokens have no field.
        """

    def parse(self, segments: Sequence[Buffer], *, num_threads: int = 1) -> ParsedSlots:
        """Parse segments of whole lines as one text, without the GIL; ``weights`` are there.

        Raises:
            SlotTextError: At the first bad token.
        """

class RecordError(ValueError):
    """A TFRecord that is damaged or does not fit what was declared.

    Attributes:
        segment: Index of the segment.
        record: Record within the segment, from 0.
        offset: Where the record begins, in bytes from the beginning of the segment.
        reason: What is wrong.
    """

    segment: int
    record: int
    offset: int
    reason: str

def cut_records(data: Buffer, begin: int, max_records: int) -> tuple[int, int]:
    """Find where ``max_records`` whole TFRecords from ``begin`` on end.

    Returns:
        The offset just past the last one taken, and how many were taken. Fewer than asked for if
        the data ends, maybe in the middle of one.

    Raises:
        RecordError: The length of a record does not fit its checksum.
        ValueError: ``begin`` is after the end of the data.
    """

def find_record(data: Buffer, begin: int) -> int | None:
    """Find the first whole TFRecord at or after ``begin``, recognised by both its checksums."""

@final
class ExampleParser:
    """Turns TFRecords of tf.Example messages into arrays; threads may share one.

    Sparse features are integers; dense ones are finite floats, or integers. A missing feature and
    an empty list are padded; a dense feature has all its values or none.
    """

    def __init__(
        self, sparse: Sequence[str], dense: Sequence[tuple[str, int]], padding: int = 0
    ) -> None:
        """Declare the features, as in ``SlotParser``."""

    def parse(self, segments: Sequence[Buffer]) -> ParsedSlots:
        """Parse segments of whole records, without the GIL.

        Raises:
            RecordError: At the first record that is damaged or does not fit.
        """

def optimizer_schema() -> dict[str, dict[str, float]]:
    """Return the row optimizers by name, with their hyper-parameters and defaults."""

def fold_ids(ids: npt.NDArray[np.int64], *, num_rows: int) -> npt.NDArray[np.int64]:
    """Return ids as a table with ``hash_ids`` keeps them.

    Those in [0, num_rows) stay; of others it is a hash modulo num_rows, see docs/tables.md.
    """

@final
class Table:
    """Rows of one width, addressed by 64-bit ids; threads may share one."""

    def __init__(
        self,
        *,
        name: str,
        dim: int,
        num_rows: int | None,
        hash_ids: bool = False,
        salt: int,
        initial: tuple[str, float, float],
        optimizer: str,
        hyperparameters: dict[str, float],
        guards: dict[str, float],
        admission: tuple[str, float, float, float],
        long_vector: tuple[float, float, float] | None = None,
        is_dense: bool = False,
        buckets: tuple[int, int] = (0, 1024),
    ) -> None:
        """Make an empty table.

        Args:
            name: Of the table, for messages.
            dim: Weights per row.
            num_rows: If given, ids lie in [0, num_rows) and number the rows themselves.
            hash_ids: Let ids beyond num_rows share the rows of others, see ``fold_ids``.
            salt: Seed of the first weights, from the run's seed and the name of the table.
            initial: Kind (constant, uniform, normal, truncated_normal), center and scale of first
                weights.
            optimizer: One of ``optimizer_schema``.
            hyperparameters: Those that differ from their defaults.
            guards: Any of l2, clip_value, clip_norm, min_weight, max_weight.
            admission: Kind (always, count, probability, score, ctr), its threshold, and the weights
                of a show without and with a click in a score.
            long_vector: The score from which a row has more than its first weight, and the weights
                of a show without and with a click in it. None: rows have all weights.
            is_dense: Whether a push is a step of all rows: those without a gradient get one of
                zeros.
            buckets: Range [first, end) that is held here; a snapshot that is read leaves
                the others out.

        Raises:
            ValueError: A name is unknown or a number impossible.
        """

    def __len__(self) -> int: ...
    def pull(self, ids: npt.NDArray[np.int64], *, create: bool) -> npt.NDArray[np.float32]:
        """Return one row per id; without ``create``, zeros where there is none."""

    def push(
        self, ids: npt.NDArray[np.int64], grads: npt.NDArray[np.float32], *, lr: float
    ) -> None:
        """Apply gradients, summed per id, to the rows that exist."""

    def read(
        self, ids: npt.NDArray[np.int64], *, as_new: bool
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
        """Return one row per id and whether it exists; changes nothing.

        Missing rows are zeros. With ``as_new``, in a table where every id gets a row, they have
        the weights with which they will be created.

        Raises:
            ValueError: An id is out of range or in a bucket that is not held here.
        """

    def count_impressions(
        self,
        ids: npt.NDArray[np.int64],
        shows: npt.NDArray[np.uint32],
        clicks: npt.NDArray[np.uint32],
        *,
        now: int,
    ) -> None:
        """Count impressions and clicks of ids in training; ids that are admitted get rows."""

    def write(self, ids: npt.NDArray[np.int64], rows: npt.NDArray[np.float32]) -> None:
        """Set the weights of rows, creating missing ones; optimizer state does not change."""

    def remove(self, ids: npt.NDArray[np.int64]) -> int:
        """Remove rows without a trace in the next delta. Returns the number of removed rows.

        This is for copies of a table; see ``evict``. Ids without a row are skipped.
        """

    def check_held(self, ids: npt.NDArray[np.int64]) -> None:
        """Raise ValueError for an id out of range or in a bucket that is not held here."""

    def buckets_of(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
        """Return the bucket that each id falls into."""

    def evict(self, ids: npt.NDArray[np.int64]) -> int:
        """Remove rows, and list them in the next delta. Returns the number of removed rows."""

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """Return all rows and counters, each ordered by unsigned id.

        Rows are ids, rows, state, shows, clicks, last_seen; counters of ids without a row are
        candidate_ids, candidate_last_seen, candidate_counts (shows, plus clicks times 65536).
        """

    def add_rows(
        self,
        *,
        ids: npt.NDArray[np.int64],
        rows: npt.NDArray[np.float32],
        state: npt.NDArray[np.float32] | None = None,
        shows: npt.NDArray[np.float32] | None = None,
        clicks: npt.NDArray[np.float32] | None = None,
        last_seen: npt.NDArray[np.uint32] | None = None,
    ) -> None:
        """Add rows; columns that are not given are as in a new row.

        Raises:
            ValueError: Shapes do not match, or an id is out of range: nothing has changed; or an id
                has a row already: those before it are added.
        """

    def clear(self) -> None:
        """Remove all rows and counters; the next snapshot is a base."""

    def restore_counts(
        self,
        *,
        created: int,
        evicted: int,
        evicted_unseen: int = 0,
        evicted_score: int = 0,
        evicted_capacity: int = 0,
    ) -> None:
        """Set the counts of created and evicted rows, to continue from them."""

    def evict_unseen(self, *, before: int) -> npt.NDArray[np.int64]:
        """Remove rows and counters last seen before an event time; return the ids of the rows."""

    def evict_low_scores(
        self, *, decay: float, threshold: float, show_weight: float, click_weight: float
    ) -> npt.NDArray[np.int64]:
        """Decay shows and clicks, then remove rows below the threshold; return their ids."""

    def evict_beyond(self, *, capacity: int) -> npt.NDArray[np.int64]:
        """Remove the least recently seen rows until ``capacity`` are left; return their ids."""

    @property
    def version(self) -> int:
        """Rises with every cut."""

    def stats(self) -> dict[str, int]:
        """Return rows, candidates, bytes, created, evicted, and evicted by each rule."""

@final
class BatchLookup:
    """All lookups of one batch in tables of one width. Keeps its buffers from batch to batch.

    Features that are pooled make one vector per sample each, side by side in the order of the
    features. The others are sequences, numbered from 0 in the same order.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[tuple[int, int, str]],
        frozen: Sequence[int],
        max_lengths: dict[int, int] = ...,
    ) -> None:
        """Describe the lookup.

        Args:
            tables: Of equal width.
            features: Column of the ids, number of the table, combiner (sum, mean, sqrtn, or none
                for a sequence).
            frozen: Numbers of the tables that are read and never changed.
            max_lengths: By number of the feature, how many of the last ids of a list count; for
                sequences only.
        """

    def find(
        self,
        ids: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        num_samples: int,
        weights: npt.NDArray[np.float32] | None = None,
        *,
        training: bool,
        now: int = 0,
        labels: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Find the rows of a batch; in training ids are counted and may get rows.

        Weights are by id, for pooling.

        Raises:
            IndexError: With (number of the feature, id) of the first id of the batch that is out of
                its table's range; nothing has changed.
        """

    def list_ids(
        self,
        ids: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        num_samples: int,
        weights: npt.NDArray[np.float32] | None = None,
        *,
        labels: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """List the unique ids of a batch whose rows are held by another process.

        The tables are used only to check the ids. Call ``set_rows`` next; then the lookup works as
        after ``find``, with ``sum`` in place of ``apply``.

        Raises:
            IndexError: As ``find`` does.
        """

    def unique_ids(
        self, table: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the unique ids of a table, how often each occurs, and how often with a click.

        Ids are those under which rows are stored.
        """

    def set_rows(
        self, rows: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]]
    ) -> None:
        """Set, by table, the rows of the listed ids and whether each exists.

        The arrays are not copied: they must live until the lookup of another batch begins.
        """

    def sum(
        self,
        pooled: npt.NDArray[np.float32] | None,
        sequences: Sequence[npt.NDArray[np.float32] | None] = (),
    ) -> Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Sum the gradient of all vectors per row; returns ids and sums by table.

        Rows that are not there, and those of frozen tables, are left out.
        """

    @property
    def num_samples(self) -> int:
        """Number of samples of the batch."""

    def pool(self, vectors: npt.NDArray[np.float32]) -> None:
        """Write the pooled vectors, one row per sample."""

    def lengths(self, sequence: int) -> npt.NDArray[np.int64]:
        """Return how many ids each sample has in a sequence."""

    def pad(self, sequence: int, vectors: npt.NDArray[np.float32]) -> None:
        """Write a sequence as [samples, length, dim], padded with zeros."""

    def gather(self, sequence: int, vectors: npt.NDArray[np.float32]) -> None:
        """Write the vectors of all lists of a sequence back to back, [ids, dim]."""

    def apply(
        self,
        pooled: npt.NDArray[np.float32] | None,
        sequences: Sequence[npt.NDArray[np.float32] | None] = (),
        *,
        lr: float,
    ) -> None:
        """Sum the gradient of all vectors per row and apply the optimizer.

        None means no gradient: rows that occur nowhere else are not updated.

        Args:
            pooled: Of the pooled vectors; rows may lie apart, as in some columns of a matrix.
            sequences: One each, as from ``pad`` or as from ``gather``; or none at all.
            lr: Learning rate.
        """

    def apply_keeping_grads(
        self,
        pooled: npt.NDArray[np.float32] | None,
        sequences: Sequence[npt.NDArray[np.float32] | None] = (),
        *,
        lr: float,
    ) -> None:
        """Apply, and keep the summed gradients for ``LogRecord.add_lookup``."""

    def apply_returning_grads(
        self,
        pooled: npt.NDArray[np.float32] | None,
        sequences: Sequence[npt.NDArray[np.float32] | None] = (),
        *,
        lr: float,
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Apply, and return for each table the updated ids and their summed gradients."""

    def impressions(
        self, table: int, *, labels: npt.NDArray[np.float32] | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Return what ``find`` counted in one table: ids and clicks, for a log.

        Args:
            table: Number of the table.
            labels: Those that ``find`` was given.
        """

class SnapshotError(ValueError):
    """A snapshot or a log that is damaged, incomplete, out of order or of another table."""

@final
class Cut:
    """A point in the history of a table: later changes belong to the next delta.

    Write one snapshot, publish it, commit. Without the commit, the next snapshot holds everything
    that this one was to hold.

    A cut fixes the content of the table without copying it: whatever other threads do to the table
    from here on, ``write`` writes the table as it was here, bit for bit. Until it is written, or
    released, or garbage-collected, a row is copied before it first changes. A table has one such
    cut at a time.
    """

    def __init__(self, table: Table, *, least: int = 0) -> None:
        """Cut here. The version of the table is raised to ``least`` first, if it is lower.

        Raises:
            RuntimeError: Another cut of the table is still to be written.
        """

    @property
    def version(self) -> int:
        """Of the table at the cut."""

    @property
    def stats(self) -> dict[str, int]:
        """Return rows, candidates, created and evicted (also by rule) of the table at the cut."""

    def write(
        self,
        directory: str | PathLike[str],
        *,
        kind: Literal["base", "delta"],
        num_shards: int = 1,
        lsn: int = 0,
        sync: bool = False,
        shards: tuple[int, int] | None = None,
        num_threads: int | None = None,
    ) -> dict[str, Any]:
        """Write the table as it was at the cut, once; see table-snapshot.md.

        Other threads may change the table meanwhile. They wait while 256 KB of rows are
        read, never for a file. The cut is released afterwards, also after an error.

        Args:
            directory: An existing folder without a snapshot.
            kind: All rows, or those that changed since the snapshot committed last.
            num_shards: Files, written side by side; from 1 to 1024.
            lsn: Number of the last log record that the table contains.
            sync: Wait until the files are on the disk.
            shards: Range [first, end) that is written here, if others write the rest.
            num_threads: How many files are written at a time. None: one per core, which is for
                when nothing is trained.

        Returns:
            rows, tombstones, candidates, bytes, version, fingerprint, lsn, crcs.

        Raises:
            OSError: A file could not be written; all files of this call are removed.
            RuntimeError: A delta without a parent, or another cut was committed since this one
                began; or the cut was written or released before; or there was no memory left to
                keep the rows that changed.
        """

    def release(self) -> None:
        """Release the content unless it is written already; waits for a running write."""

    def commit(self, *, fingerprint: int | None = None) -> None:
        """Make what was written the parent of the next delta, and forget older tombstones.

        Args:
            fingerprint: That of all files of the snapshot, if other processes wrote some of them.

        Raises:
            RuntimeError: Nothing was written, or the table was cleared or another cut committed
                since this one began.
        """

@final
class ShardFile:
    """One file of a snapshot, read block by block; every block is checked before it comes."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Read the header.

        Raises:
            SnapshotError: It is damaged, or the file cannot be read.
        """

    @property
    def header(self) -> dict[str, Any]:
        """Kind, shard, num_shards, dim, num_rows (None: any id), version, parent_version.

        And parent_fingerprint, table, optimizer.
        """

    @property
    def crc(self) -> int:
        """Of the blocks so far; that of the file when the last has been read."""

    def next_block(self) -> tuple[str, dict[str, npt.NDArray[Any]]] | None:
        """Return tombstones, rows or candidates by column; None at the end, which is checked.

        Columns are ids (uint64), and but for tombstones last_seen, shows and clicks; rows and state
        of rows.

        Raises:
            SnapshotError: The file is damaged.
        """

def read_snapshot(table: Table, directories: Sequence[str | PathLike[str]]) -> dict[str, int]:
    """Replace a table by a base and the deltas that follow it.

    Returns:
        As ``Cut.write``; entries and bytes are sums over all directories, the rest is that of the
        last.

    Raises:
        SnapshotError: With file and offset; the table is empty then.
        ValueError: No directory was given; the table is empty then.
    """

@final
class LogRecord:
    """What one request did to the tables; a log holds all of it or nothing."""

    def __init__(self) -> None: ...
    def add_impressions(
        self, table: int, ids: npt.NDArray[np.int64], clicks: npt.NDArray[np.uint8], *, now: int
    ) -> None:
        """Add every occurrence of an id in training, in order; clicks are 0 or 1."""

    def add_push(
        self, table: int, ids: npt.NDArray[np.int64], grads: npt.NDArray[np.float32], *, lr: float
    ) -> None:
        """Add summed gradients of different ids that have rows."""

    def add_lookup(
        self,
        lookup: BatchLookup,
        tables: Sequence[int],
        *,
        now: int,
        lr: float,
        labels: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Add what a lookup counted and ``apply_keeping_grads`` applied; copied when appended.

        Append the record before the next batch is looked up.

        Args:
            lookup: Kept alive by the record.
            tables: For each table of the lookup, its number in the log.
            now: As in ``find``.
            lr: As in ``apply_keeping_grads``.
            labels: As in ``find``; not to be changed before the record is appended.

        Raises:
            RuntimeError: The lookup kept no changes.
        """

    def add_eviction(self, table: int, ids: npt.NDArray[np.int64]) -> None:
        """Add ids whose rows were removed."""

@final
class TableLog:
    """A segment of a log that is being written; see table-log.md. Threads may share it."""

    def __init__(
        self, path: str | PathLike[str], tables: Sequence[Table], *, first_lsn: int = 1
    ) -> None:
        """Create the file.

        Args:
            path: A file that does not exist.
            tables: Operations name a table by its number in this list.
            first_lsn: Number of the first record.

        Raises:
            OSError: The file exists or cannot be written.
        """

    @property
    def last_lsn(self) -> int:
        """Number of the last record appended; that before the first if there is none."""

    def append(
        self, record: LogRecord, *, worker: int = 0, incarnation: int = 0, sequence: int = 0
    ) -> int:
        """Take a record into the next commit and return its number.

        Raises:
            ValueError: It names a table or a width that the log does not have, or is too long.
            RuntimeError: A lookup in it has gone on to another batch.
        """

    def commit(self, level: Literal["process", "disk"]) -> int:
        """Make all records appended so far survive the process, or the machine.

        Returns:
            The last number that is safe.

        Raises:
            OSError: It failed; the records wait for the next commit.
            RuntimeError: An earlier failure broke the log.
        """

def replay_log(
    tables: Sequence[Table],
    segments: Sequence[str | PathLike[str]],
    *,
    after_lsn: int = 0,
    torn_tail: Literal["keep", "truncate"] = "keep",
) -> dict[str, Any]:
    """Apply the records after ``after_lsn``; the result equals the logged tables, bit for bit.

    Args:
        tables: Those of the log, in its order, as they were after record ``after_lsn``.
        segments: Files in order.
        after_lsn: Last record that the tables contain.
        torn_tail: What to do with an incomplete record at the end, which a crash leaves.

    Returns:
        ``last_lsn`` of the tables now; ``applied``, how many records; ``torn``, None or (path,
        offset, reason); ``requests``, for each worker its last (incarnation, sequence).

    Raises:
        SnapshotError: The log is damaged or of other tables, which are unchanged; or it does not
            follow them: then they are empty.
    """

def drop_segments(segments: Sequence[str | PathLike[str]], lsn: int) -> list[Path]:
    """Remove the segments of a log that a snapshot with this lsn makes superfluous.

    Args:
        segments: Files in order; the last always stays.
        lsn: Last record that the snapshot contains.

    Returns:
        Those removed, the oldest first.

    Raises:
        SnapshotError: A segment cannot be read, or is out of order; none is removed.
        OSError: One could not be removed; those before it are.
    """
