"""Predictions in part files, each published at once; docs/formats/predictions.md. No torch.

A run that was killed continues: ``MANIFEST.json`` names the parts that are complete, so every row
of the input has one row in the output, in the same order.
"""

import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fleetrec.core import storage
from fleetrec.core.errors import ConfigError, DataError, MissingFileError
from fleetrec.core.fault_points import fault_point

MANIFEST = "MANIFEST.json"
KIND = "predictions"
FORMATS = ("parquet", "csv", "jsonl")
_FORMAT_VERSION = 1
_SUFFIXES = (
    (".parquet", "parquet"),
    (".pq", "parquet"),
    (".csv", "csv"),
    (".tsv", "csv"),
    (".jsonl", "jsonl"),
    (".json", "jsonl"),
)


def format_of(url: str, *, default: str) -> str:
    """Return the format of an output by its suffix."""
    name = storage.name_of(url).lower()
    return next((kind for suffix, kind in _SUFFIXES if name.endswith(suffix)), default)


class PredictionWriter:
    """Writes predictions into a folder, and continues what is there already.

    Args:
        url: The folder, a path or a URL.
        format: parquet, csv or jsonl.
        request: What is predicted from what. A folder of another request is refused.
        rows_per_part: The number of rows of a part, at least.
        separator: Of the cells of a CSV, one character.
    """

    def __init__(
        self,
        url: str,
        *,
        format: str,
        request: Mapping[str, Any],
        rows_per_part: int = 100_000,
        separator: str = ",",
    ) -> None:
        if len(separator.encode()) != 1:
            raise ConfigError([f"--output_sep: expected one byte, got {separator!r}"])
        self._url = storage.to_url(url)
        self._format = format
        self._separator = separator
        self._rows_per_part = rows_per_part
        self._request = json.loads(
            json.dumps({**request, "format": format, "separator": separator})
        )
        self._waiting: list[pa.RecordBatch] = []
        self._num_waiting = 0
        self.parts: list[dict[str, Any]] = []
        self.is_complete = False
        self._load()

    @property
    def num_rows(self) -> int:
        """The number of rows in complete parts."""
        return sum(int(part["num_rows"]) for part in self.parts)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows; they are published when a part is full."""
        self._waiting.append(rows)
        self._num_waiting += rows.num_rows
        if self._num_waiting >= self._rows_per_part:
            self._publish_part()

    def finish(self) -> None:
        """Publish what is left, and mark the output as complete."""
        if self._waiting:
            self._publish_part()
        self.is_complete = True
        self._write_manifest()

    def _publish_part(self) -> None:
        name = f"part-{len(self.parts):05d}.{self._format}"
        content = self._encoded(_joined(self._waiting))
        storage.write_bytes(storage.join(self._url, name), content)
        fault_point("predictions")
        self.parts.append({"name": name, "num_rows": self._num_waiting, "bytes": len(content)})
        self._waiting, self._num_waiting = [], 0
        self._write_manifest()

    def _encoded(self, table: pa.Table) -> bytes:
        stream = io.BytesIO()
        match self._format:
            case "parquet":
                pa.parquet.write_table(table, stream)
            case "csv":
                options = pa.csv.WriteOptions(delimiter=self._separator, quoting_style="needed")
                pa.csv.write_csv(_flat(table), stream, write_options=options)
            case _:
                for row in table.to_pylist():
                    stream.write(json.dumps(row, ensure_ascii=False, default=_plain).encode())
                    stream.write(b"\n")
        return stream.getvalue()

    def _load(self) -> None:
        """Read the manifest, if a run has begun to write here."""
        where = storage.shown(storage.join(self._url, MANIFEST))
        try:
            content = storage.read_bytes(storage.join(self._url, MANIFEST))
        except MissingFileError:
            if storage.exists(self._url) and storage.list_names(self._url):
                self._check_unlisted()
            return
        try:
            found = json.loads(content)
            parts, request = list(found["parts"]), found["request"]
            is_known = found["kind"] == KIND and found["format_version"] == _FORMAT_VERSION
            is_complete = bool(found["is_complete"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{where}: not a manifest of predictions ({error!r}); choose another output"
            ) from error
        changed = [key for key in self._request if request.get(key) != self._request[key]]
        if not is_known or changed:
            raise ConfigError(
                [
                    f"{storage.shown(self._url)}: holds predictions of another run; differs in "
                    f"{', '.join(changed) or 'kind'}; delete it, or choose another output"
                ]
            )
        self.parts, self.is_complete = parts, is_complete

    def _check_unlisted(self) -> None:
        """Refuse a folder that holds something else; a part of a killed run is written again."""
        others = [name for name in storage.list_names(self._url) if not _is_part(name)]
        if others:
            raise ConfigError(
                [
                    f"{storage.shown(self._url)}: expected a new folder, or one of predictions; it "
                    f"holds {others[0]!r}; choose another output"
                ]
            )

    def _write_manifest(self) -> None:
        manifest = {
            "format_version": _FORMAT_VERSION,
            "kind": KIND,
            "request": self._request,
            "parts": self.parts,
            "num_rows": self.num_rows,
            "is_complete": self.is_complete,
        }
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        storage.write_bytes(storage.join(self._url, MANIFEST), text.encode())


def _is_part(name: str) -> bool:
    return name.startswith((".", "part-"))


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return rows as one table; columns that only some files have are null in the others."""
    tables = [pa.Table.from_batches([one]) for one in batches]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _flat(table: pa.Table) -> pa.Table:
    """Return a table whose lists are text, as a CSV has them: values with ``|`` between."""
    for number, field in enumerate(table.schema):
        if not (pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type)):
            continue
        texts = [
            None if row is None else "|".join(map(str, row))
            for row in table.column(number).to_pylist()
        ]
        table = table.set_column(number, field.name, pa.array(texts, pa.string()))
    return table


def _plain(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
