"""``fg_json_path``: columns and features of a pipeline from a file of a feature generator."""

import json
from pathlib import Path
from typing import Any

from fleetrec.config.pipeline_dialect.text import Node, Tree
from fleetrec.core.errors import ConfigError

VALUE_SEPARATOR = "\x1d"
EMBEDDING_DIM = 16
IDS = ("id_feature", "combo_feature")
LOOKUPS = ("lookup_feature", "match_feature")
NUMBERS = ("raw_feature", "overlap_feature", "expr_feature")


def expand_fg(tree: Tree) -> None:
    """Add the columns and features that ``fg_json_path`` names to a pipeline, once.

    Columns are the labels, then one for every feature. Features that the pipeline has itself stay.
    """
    nodes = tree.get("fg_json_path", [])
    path = nodes[-1].text if nodes else ""
    if not path or path.startswith("!"):
        return
    document = _read(path)
    entries = list(_features(document, path))
    data = _message(tree, "data_config", path)
    given = {_text(node.tree, "input_name") for node in data.get("input_fields", [])}
    labels = [node.text for node in data.get("label_fields", [])]
    columns = [_field(label, "INT32", path) for label in labels]
    columns += [_field(one["feature_name"], _column_type(one), path) for one in entries]
    old = [node for node in data.get("input_fields", []) if node.tree]
    data["input_fields"] = old + [
        node for node in columns if _text(node.tree, "input_name") not in given
    ]
    config = _message(tree, "feature_config", path)
    own = {_feature_name(node.tree) for node in config.get("features", [])}
    mark = str(document.get("multi_val_sep", VALUE_SEPARATOR))
    made = [_feature(one, mark, path) for one in entries if one["feature_name"] not in own]
    config.setdefault("features", []).extend(made)
    tree["fg_json_path"] = [Node(kind="given", text=f"!{path}", origin="fg_json_path")]


def _read(path: str) -> dict[str, Any]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError([f"fg_json_path: {path}: cannot be read: {error}"]) from error
    if not isinstance(document, dict) or not isinstance(document.get("features"), list):
        raise ConfigError([f"fg_json_path: {path}: expected an object with a list 'features'"])
    return document


def _features(document: dict[str, Any], path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    for number, entry in enumerate(document["features"]):
        where = f"fg_json_path: {path}: features[{number}]"
        if not isinstance(entry, dict):
            problems.append(f"{where}: expected an object")
        elif "sequence_name" in entry:
            found += _of_sequence(entry)
        elif "feature_name" not in entry:
            problems.append(f"{where}: expected feature_name")
        elif entry.get("feature_type") not in (*IDS, *LOOKUPS, *NUMBERS):
            kind = entry.get("feature_type")
            problems.append(f"{where}: feature_type {kind!r} is not supported")
        else:
            found.append(entry)
    if problems:
        raise ConfigError(problems)
    return found


def _of_sequence(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the features of a sequence, each with the sequence in its name."""
    common: dict[str, Any] = {"sequence": True, "sequence_length": entry.get("sequence_length", 50)}
    mark = entry.get("sequence_delim", ";")
    prefix = entry["sequence_name"]
    return [
        {
            **one,
            **common,
            "sequence_delim": mark,
            "feature_name": f"{prefix}__{one['feature_name']}",
        }
        for one in entry.get("features", [])
    ]


def _is_number(entry: dict[str, Any]) -> bool:
    if entry.get("feature_type") in IDS:
        return False
    if entry.get("feature_type") in LOOKUPS:
        return not (entry.get("needDiscrete") or entry.get("hash_bucket_size"))
    return not entry.get("hash_bucket_size")


def _column_type(entry: dict[str, Any]) -> str:
    is_single = int(entry.get("value_dimension", 1)) == 1 and not entry.get("sequence")
    return "DOUBLE" if _is_number(entry) and is_single else "STRING"


def _feature(entry: dict[str, Any], mark: str, path: str) -> Node:
    """Return a feature as a message."""
    name = entry["feature_name"]
    fields: dict[str, Any] = {"feature_name": name, "input_names": name}
    if _is_number(entry):
        fields["feature_type"] = "RawFeature"
        fields["raw_input_dim"] = int(entry.get("value_dimension", 1))
        dim = entry.get("embedding_dim", EMBEDDING_DIM if entry.get("boundaries") else 0)
        fields["boundaries"] = entry.get("boundaries", [])
        fields["embedding_dim"] = dim
    else:
        fields["feature_type"] = "TagFeature"
        fields["embedding_dim"] = entry.get("embedding_dim", EMBEDDING_DIM)
        for key in ("hash_bucket_size", "num_buckets", "vocab_list", "vocab_file"):
            if entry.get(key):
                fields[key] = entry[key]
        fields["kv_separator"] = ":" if entry.get("needWeighting") else ""
    fields["separator"] = mark
    fields["combiner"] = entry.get("combiner", "mean")
    fields["embedding_name"] = entry.get("embedding_name", entry.get("shared_name", ""))
    if entry.get("sequence"):
        fields["sub_feature_type"] = "RawFeature" if _is_number(entry) else "IdFeature"
        fields["feature_type"] = "SequenceFeature"
        fields["separator"] = entry["sequence_delim"]
        fields["sequence_length"] = entry["sequence_length"]
    return Node(kind="message", tree=to_tree(fields, origin=path), origin=path)


def to_tree(fields: dict[str, Any], *, origin: str) -> Tree:
    """Return plain data as a message; empty values are left out."""
    tree: Tree = {}
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        nodes = [_node(one, origin) for one in values if one not in ("", None)]
        if nodes:
            tree[name] = nodes
    return tree


def _node(value: Any, origin: str) -> Node:
    if isinstance(value, dict):
        return Node(kind="message", tree=to_tree(value, origin=origin), origin=origin)
    if isinstance(value, bool):
        return Node(kind="word", text="true" if value else "false", origin=origin)
    if isinstance(value, int | float):
        return Node(kind="number", text=json.dumps(value), origin=origin)
    return Node(kind="given", text=str(value), origin=origin)


def _field(name: str, kind: str, path: str) -> Node:
    fields = {"input_name": name, "input_type": kind}
    return Node(kind="message", tree=to_tree(fields, origin=path), origin=path)


def _message(tree: Tree, name: str, path: str) -> Tree:
    nodes = tree.setdefault(name, [])
    if not nodes:
        nodes.append(Node(kind="message", origin=path))
    return nodes[-1].tree


def _feature_name(tree: Tree) -> str:
    return _text(tree, "feature_name") or _text(tree, "input_names")


def _text(tree: Tree, name: str) -> str:
    nodes = tree.get(name, [])
    return nodes[0].text if nodes else ""
