"""Messages of TFRecord files as columns: tf.Example, and tf.SequenceExample with several rows."""

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from fleetrec.config.features import ColumnOptions
from fleetrec.core.errors import DataError

HEADER = struct.Struct("<QI")  # length of a record, and its checksum
FOOTER_BYTES = 4
PACKAGE = "fleetrec.examples"
_LISTS = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))


def records_of(data: memoryview) -> Iterator[bytes]:
    """Yield the contents of whole records."""
    begin = 0
    while begin < len(data):
        length, _ = HEADER.unpack_from(data, begin)
        begin += HEADER.size
        yield bytes(data[begin : begin + length])
        begin += length + FOOTER_BYTES


def example_columns(records: Sequence[bytes], columns: Sequence[ColumnOptions]) -> pa.RecordBatch:
    """Return one row per record; a list of several values stays a list."""
    parsed = [_parse("Example", record).features.feature for record in records]
    cells = {
        column.name: [_values(features, column.name) for features in parsed] for column in columns
    }
    return _to_batch(cells, columns)


def sequence_columns(records: Sequence[bytes], columns: Sequence[ColumnOptions]) -> pa.RecordBatch:
    """Return the rows of all records, each of which has several."""
    cells: dict[str, list[Any]] = {column.name: [] for column in columns}
    for number, record in enumerate(records):
        lists = _parse("SequenceExample", record).feature_lists.feature_list
        found = {
            column.name: [list(_list_of(one)) for one in lists[column.name].feature]
            if column.name in lists
            else []
            for column in columns
        }
        found = {name: _one_each(values) for name, values in found.items()}
        num_rows = max(map(len, found.values()), default=0)
        for name, values in found.items():
            if len(values) not in (0, num_rows):
                raise DataError(
                    f"record {number + 1}: {name!r} has {len(values)} rows, others {num_rows}"
                )
            cells[name].extend(values or itertools.repeat(None, num_rows))
    return _to_batch(cells, columns)


def _one_each(values: list[list[Any]]) -> list[Any]:
    """Return rows: of one list of many values each value is a row."""
    if len(values) == 1 and len(values[0]) > 1:
        return [[value] for value in values[0]]
    return values


def _to_batch(cells: dict[str, list[Any]], columns: Sequence[ColumnOptions]) -> pa.RecordBatch:
    arrays = {}
    for column in columns:
        rows = cells[column.name]
        is_single = all(row is None or len(row) <= 1 for row in rows)
        kind = _type_of(column, rows)
        if is_single:
            arrays[column.name] = pa.array([row[0] if row else None for row in rows], kind)
        else:
            arrays[column.name] = pa.array(rows, pa.list_(kind))
    return pa.RecordBatch.from_pydict(arrays)


def _type_of(column: ColumnOptions, rows: Sequence[Any]) -> pa.DataType:
    first = next((row[0] for row in rows if row), None)
    if isinstance(first, bytes):
        return pa.binary()
    if isinstance(first, float):
        return pa.float32()
    if first is None:
        return {"text": pa.binary(), "integer": pa.int64()}.get(column.type, pa.float32())
    return pa.int64()


def _values(features: Any, name: str) -> list[Any] | None:
    return list(_list_of(features[name])) if name in features else None


def _list_of(feature: Any) -> Sequence[Any]:
    kind = feature.WhichOneof("kind")
    values: Sequence[Any] = getattr(feature, kind).value if kind else ()
    return values


def _parse(kind: str, record: bytes) -> Any:
    try:
        return _CLASSES[kind].FromString(record)
    except DecodeError as error:
        raise DataError(f"a record is no {kind}: {error}") from error


def _classes() -> dict[str, Any]:
    """Return the message classes, which are part of the file format."""
    file = descriptor_pb2.FileDescriptorProto(
        name="fleetrec/examples.proto", package=PACKAGE, syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"BytesList": field.TYPE_BYTES, "FloatList": field.TYPE_FLOAT}
    for _, name in _LISTS:
        _add(file, name, [("value", 1, kinds.get(name, field.TYPE_INT64), "", True)])
    feature = _add(
        file,
        "Feature",
        [(n, i + 1, field.TYPE_MESSAGE, kind, False) for i, (n, kind) in enumerate(_LISTS)],
    )
    feature.oneof_decl.add(name="kind")
    for one in feature.field:
        one.oneof_index = 0
    _add(file, "FeatureList", [("feature", 1, field.TYPE_MESSAGE, "Feature", True)])
    _add_map(file, "Features", "feature", "Feature")
    _add_map(file, "FeatureLists", "feature_list", "FeatureList")
    _add(file, "Example", [("features", 1, field.TYPE_MESSAGE, "Features", False)])
    several = [
        ("context", 1, field.TYPE_MESSAGE, "Features", False),
        ("feature_lists", 2, field.TYPE_MESSAGE, "FeatureLists", False),
    ]
    _add(file, "SequenceExample", several)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in ("Example", "SequenceExample")
    }


def _add(file: Any, name: str, fields: Sequence[tuple[str, int, int, str, bool]]) -> Any:
    message = file.message_type.add(name=name)
    for field_name, number, kind, type_name, is_repeated in fields:
        message.field.add(
            name=field_name,
            number=number,
            type=kind,
            type_name=f".{PACKAGE}.{type_name}" if type_name else None,
            label=3 if is_repeated else 1,
        )
    return message


def _add_map(file: Any, name: str, field_name: str, value: str) -> None:
    """Add a message with a map from text to messages."""
    entry = "".join(word.capitalize() for word in field_name.split("_")) + "Entry"
    field = descriptor_pb2.FieldDescriptorProto
    message = _add(file, name, [(field_name, 1, field.TYPE_MESSAGE, f"{name}.{entry}", True)])
    nested = message.nested_type.add(name=entry)
    nested.options.map_entry = True
    nested.field.add(name="key", number=1, type=field.TYPE_STRING, label=1)
    nested.field.add(
        name="value",
        number=2,
        type=field.TYPE_MESSAGE,
        type_name=f".{PACKAGE}.{value}",
        label=1,
    )


_CLASSES = _classes()
