"""TFRecord files whose features are columns: one row per record, or several."""

from collections.abc import Sequence
from typing import ClassVar

from fleetrec.config.dataset_features import dataset_features
from fleetrec.config.input_rules import InputRules
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError
from fleetrec.data.block import Block
from fleetrec.data.columns import RowValues, assemble
from fleetrec.data.examples import example_columns, records_of, sequence_columns
from fleetrec.data.files import DataFile
from fleetrec.data.source import BadRowError, RowChunk
from fleetrec.data.sources.tfrecord import RecordChunk, TfRecord
from fleetrec.features.column import BadValueError
from fleetrec.features.feature_set import FeatureSet


class ExampleColumns(TfRecord, name="example_columns"):
    """Decodes tf.Example messages to columns, of which features are made."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    applies_id_rules = True

    def __init__(self, options: DatasetOptions) -> None:
        super().__init__(options)
        self._features = FeatureSet(dataset_features(options))
        self.rows_map_to_many_samples = options.rows_per_record is not None

    @property
    def input_rules(self) -> InputRules:
        """Return how columns become features."""
        return InputRules(features=self._features.options)

    def cut(self, file: DataFile, fraction: float) -> int | None:
        """Return the first record after a fraction of the file."""
        return super().cut(file, fraction)

    def decode(self, chunks: Sequence[RowChunk]) -> Block:
        """Return the samples, or raise an error that names file and record."""
        parts = []
        make = sequence_columns if self.rows_map_to_many_samples else example_columns
        for index, chunk in enumerate(chunks):
            assert isinstance(chunk, RecordChunk)
            before = sum(other.num_rows for other in chunks[:index])
            path = chunk.file_slice.file.path
            try:
                rows = make(list(records_of(chunk.data)), self.options.columns)
                parts.append(RowValues(values=self._features.transform_rows(rows)))
            except BadValueError as fault:
                where = f"{path}: row {chunk.first_row + fault.row + 1}"
                raise BadRowError(f"{where}: {fault}", row=before + fault.row) from None
            except DataError as error:
                raise BadRowError(f"{path}: {error}", row=before) from None
        return assemble(self.options, parts)
