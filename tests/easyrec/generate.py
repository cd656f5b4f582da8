"""Makes data for any pipeline from the columns that it declares.

Labels follow from planted tastes of the first two columns that are features, so that there is
something to learn.
"""

import csv
import json
import math
import random
from pathlib import Path

import numpy as np

from fleetrec.config.pipeline_dialect.text import read_tree

VOCABULARY = 40  # different values of a column
SEQUENCE = 5  # the most values of a list


class Column:
    """One column as a pipeline declares it, and the feature that it is first used for."""

    def __init__(self, field, features, label_dims):
        self.name = one(field, "input_name")
        self.type = one(field, "input_type") or "STRING"
        uses = [f for f in features if self.name in texts(f, "input_names")]
        self.use = uses[0] if uses else {}
        self.uses = uses
        self.label_dim = label_dims.get(self.name)

    @property
    def is_label(self):
        return self.label_dim is not None

    def value(self, draw):
        """Return a value as text."""
        kind = one(self.use, "feature_type") or "IdFeature"
        if self.type in ("FLOAT", "DOUBLE"):
            return f"{draw.uniform(0, 50):.3f}"
        if self.type in ("INT32", "INT64"):
            return str(draw.randrange(int(one(self.use, "num_buckets") or VOCABULARY)))
        if self.type == "BOOL":
            return draw.choice(("true", "false"))
        if kind == "TagFeature":
            return self._list(draw, self._tag)
        if kind == "SequenceFeature":
            return self._list(draw, self._step)
        if kind == "RawFeature":
            return self._numbers(draw)
        if kind == "LookupFeature":
            return self._lookup(draw)
        return self._id(draw)

    def _id(self, draw):
        buckets = int(one(self.use, "num_buckets") or 0)
        words = texts(self.use, "vocab_list")
        if words:
            return draw.choice(words)
        number = draw.randrange(min(buckets or VOCABULARY, VOCABULARY))
        # Columns of ids also name items of samplers, which are whole numbers.
        return str(number)

    def _list(self, draw, make):
        mark = one(self.use, "separator") or "|"
        return mark.join(make(draw) for _ in range(draw.randrange(SEQUENCE + 1)))

    def _tag(self, draw):
        mark = one(self.use, "kv_separator")
        return f"{self._id(draw)}{mark}{draw.uniform(0.1, 2):.2f}" if mark else self._id(draw)

    def _step(self, draw):
        mark = one(self.use, "seq_multi_sep")
        width = int(one(self.use, "raw_input_dim") or 1)
        is_raw = one(self.use, "sub_feature_type") == "RawFeature"
        count = width if is_raw and width > 1 else draw.randrange(1, 4) if mark else 1
        values = [f"{draw.uniform(0, 300):.2f}" if is_raw else self._id(draw) for _ in range(count)]
        return (mark or "").join(values)

    def _numbers(self, draw):
        width = int(one(self.use, "raw_input_dim") or 1)
        mark = one(self.use, "separator") or "|"
        return mark.join(f"{draw.gauss(0, 1):.3f}" for _ in range(width))

    def _lookup(self, draw):
        names = texts(self.use, "input_names")
        if names[0] == self.name:
            return self._id(draw)
        mark = one(self.use, "separator") or "|"
        value = one(self.use, "kv_separator") or ":"
        return mark.join(f"{key}{value}{draw.randrange(9)}" for key in range(VOCABULARY // 2))


def one(tree, name):
    """Return the text of a field; None without it."""
    nodes = tree.get(name, [])
    return nodes[-1].text if nodes else None


def texts(tree, name):
    return [node.text for node in tree.get(name, [])]


def message(tree, name):
    nodes = tree.get(name, [])
    return nodes[-1].tree if nodes else {}


def columns_of(pipeline):
    data = message(pipeline, "data_config")
    features = [node.tree for node in pipeline.get("feature_configs", [])]
    features += [node.tree for node in message(pipeline, "feature_config").get("features", [])]
    labels = texts(data, "label_fields")
    dims = [int(text) for text in texts(data, "label_dim")] or [1] * len(labels)
    label_dims = dict(zip(labels, dims, strict=True))
    return [Column(node.tree, features, label_dims) for node in data.get("input_fields", [])]


def make_rows(pipeline, num_rows, *, seed):
    """Return columns and rows of text."""
    columns = columns_of(pipeline)
    known = [c for c in columns if not c.is_label]
    drivers = [c for c in known if c.uses and c.type in ("STRING", "INT32", "INT64")][:2] or known
    num_class = int(one(message(pipeline, "model_config"), "num_class") or 1)
    tastes = random.Random(7)
    taste = {(c.name, str(v)): tastes.gauss(0, 1.5) for c in drivers for v in range(VOCABULARY)}
    draw = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        row = {c.name: c.value(draw) for c in known}
        score = sum(taste.get((c.name, row[c.name]), 0.0) for c in drivers)
        for c in columns:
            if c.is_label:
                row[c.name] = _label(c, score, num_class, draw, mark="|")
        rows.append([row[c.name] for c in columns])
    return columns, rows


def _label(column, score, num_class, draw, *, mark):
    if column.label_dim > 1:
        return mark.join(f"{draw.gauss(0, 1):.3f}" for _ in range(column.label_dim))
    is_positive = draw.random() < 1 / (1 + math.exp(-score))
    if column.type == "STRING" and not column.uses:
        return f"{score:.3f}"
    if column.type in ("FLOAT", "DOUBLE"):
        return f"{float(is_positive):.1f}"
    return str(int(is_positive) if num_class <= 2 else min(num_class - 1, int(abs(score))))


def write_csv(path, columns, rows, *, separator=","):
    with Path(path).open("w", newline="") as stream:
        csv.writer(stream, delimiter=separator, lineterminator="\n").writerows(rows)


def write_rtp(path, columns, rows, *, separator, outer, selected):
    """Labels and the features in one column, at their indices."""
    *labels, features = [int(index) for index in selected.split(",")]
    label_places = [i for i, column in enumerate(columns) if column.is_label]
    with Path(path).open("w") as stream:
        for row in rows:
            cells = ["x"] * (max(*labels, features) + 1)
            for index, place in zip(labels, label_places, strict=True):
                cells[index] = row[place]
            others = (value for i, value in enumerate(row) if i not in label_places)
            cells[features] = separator.join(others)
            stream.write(outer.join(cells) + "\n")


def write_parquet(path, columns, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"INT32": int, "INT64": int, "FLOAT": float, "DOUBLE": float}
    table = {
        c.name: [kinds.get(c.type, str)(row[i]) for row in rows] for i, c in enumerate(columns)
    }
    pq.write_table(pa.table(table), path)


def write_criteo(folder, columns, rows):
    names = [c.name for c in columns]
    table = np.array(rows, dtype=np.float64)
    dense = table[:, [names.index(f"f{i}") for i in range(1, 14)]].astype(np.float32)
    categories = table[:, [names.index(f"c{i}") for i in range(1, 27)]].astype(np.int32)
    labels = table[:, names.index("label")].astype(np.int32)
    for name, array in (("dense", dense), ("category", categories), ("label", labels)):
        array.tofile(folder / f"{name}.bin")


def write_sampler_files(folder, pipeline, columns, rows):
    """Write items, users and edges of the sampler; returns fields and paths."""
    data = message(pipeline, "data_config")
    kinds = (
        "negative_sampler",
        "negative_sampler_v2",
        "negative_sampler_in_memory",
        "hard_negative_sampler",
        "hard_negative_sampler_v2",
    )
    for kind in kinds:
        if kind in data:
            sampler = message(data, kind)
            break
    else:
        return {}
    names = [c.name for c in columns]
    fields = texts(sampler, "attr_fields")
    mark = one(sampler, "attr_delimiter") or ":"
    item_at = names.index(one(sampler, "item_id_field"))
    items = {row[item_at]: mark.join(row[names.index(f)] for f in fields) for row in rows}
    item_lines = ["id:int64\tweight:float\tfeature:string"]
    item_lines += [f"{item}\t1.0\t{attributes}" for item, attributes in sorted(items.items())]
    written = {}

    def write(field, lines):
        if field in sampler:
            path = Path(folder) / f"{field}.txt"
            path.write_text("\n".join(lines) + "\n")
            written[f"data_config.{kind}.{field}"] = str(path)

    write("input_path", item_lines)
    write("item_input_path", item_lines)
    if "user_id_field" in sampler:
        user_at = names.index(one(sampler, "user_id_field"))
        users = sorted({row[user_at] for row in rows})
        write("user_input_path", ["id:int64\tweight:float", *(f"{u}\t1.0" for u in users)])
        edges = sorted({(row[user_at], row[item_at]) for row in rows[: len(rows) // 2]})
        head = "userid:int64\titemid:int64\tweight:float"
        lines = [head, *(f"{user}\t{item}\t1.0" for user, item in edges)]
        write("pos_edge_input_path", lines)
        write("hard_neg_edge_input_path", lines[: 1 + len(lines) // 2])
    return written


def make_data(config, folder, *, num_train=600, num_eval=200):
    """Write data for a pipeline file; returns edits that make the pipeline read it."""
    pipeline = read_tree(Path(config))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = message(pipeline, "data_config")
    kind = one(data, "input_type") or "CSVInput"
    edits = {"model_dir": str(folder / "model")}
    for part, count in (("train", num_train), ("eval", num_eval)):
        columns, rows = make_rows(pipeline, count, seed=len(part))
        edits |= _write(kind, folder, part, pipeline, columns, rows)
        if part == "train":
            edits |= write_sampler_files(folder, pipeline, columns, rows)
    return edits


def _write(kind, folder, part, pipeline, columns, rows):
    data = message(pipeline, "data_config")
    path = folder / f"{part}.data"
    if kind.startswith("RTP"):
        write_rtp(
            path,
            columns,
            rows,
            separator=one(data, "separator") or ",",
            outer=one(data, "rtp_separator") or ";",
            selected=one(data, "selected_cols"),
        )
    elif kind.startswith("Parquet"):
        path = folder / f"{part}.parquet"
        write_parquet(path, columns, rows)
        field = f"parquet_{part}_input"
        return {field if field in pipeline else f"{part}_input_path": str(path)}
    elif kind == "CriteoInput":
        inner = folder / part
        inner.mkdir(exist_ok=True)
        write_criteo(inner, columns, rows)
        return {
            f"binary_{part}_input.{name}_path": json.dumps([str(inner / f"{name}.bin")])
            for name in ("category", "dense", "label")
        }
    else:
        write_csv(path, columns, rows, separator=one(data, "separator") or ",")
    return {f"{part}_input_path": str(path)}
