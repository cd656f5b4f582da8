"""Stores the rules for raw columns with an inference model, and loads them. No torch."""

from collections.abc import Collection

from fleetrec.checkpoint.folder import Folder
from fleetrec.config.features import (
    AnyFeatureOptions,
    DenseOptions,
    FeatureOptions,
    FeatureSetOptions,
    IdListOptions,
)
from fleetrec.config.input_rules import InputRules
from fleetrec.config.job import TextTableOptions
from fleetrec.core.errors import CheckpointError, DataError
from fleetrec.features.feature_set import FeatureSet
from fleetrec.features.vocabulary import parse_vocabulary, read_vocabulary

FOLDER = "vocabularies"


def pack_rules(rules: InputRules, feeds: Collection[str]) -> tuple[InputRules, dict[str, bytes]]:
    """Return the rules of the feeds as the manifest has them, and the files of vocabularies."""
    contents: dict[str, bytes] = {}
    names: dict[str, str] = {}  # features may share a vocabulary
    features: list[AnyFeatureOptions] = []
    wanted = restrict(rules.features, feeds)
    for feature in wanted.features:
        path = _vocabulary_path(feature)
        if path is not None and path not in names:
            names[path] = f"{FOLDER}/{len(names):05d}.txt"
            contents[names[path]] = "".join(f"{one}\n" for one in read_vocabulary(path)).encode()
        features.append(feature if path is None else _replaced(feature, path=names[path]))
    packed = wanted.model_copy(update={"features": tuple(features)})
    return rules.model_copy(update={"features": packed}), contents


def restrict(options: FeatureSetOptions, names: Collection[str]) -> FeatureSetOptions:
    """Return the rules of some features, and the columns that these declare.

    A name without a rule is an error: a model that takes only some of its inputs from columns would
    be of no use.
    """
    features = tuple(feature for feature in options.features if feature.name in names)
    missing = sorted(set(names) - {feature.name for feature in features})
    if missing:
        raise DataError(f"{options.owner}: no rule for the inputs {', '.join(missing)}")
    used = {one for f in features if isinstance(f, FeatureOptions) for one in f.columns}
    columns = tuple(column for column in options.columns if column.name in used)
    return options.model_copy(update={"columns": columns, "features": features})


def with_text_cells(options: FeatureSetOptions, table: TextTableOptions) -> FeatureSetOptions:
    """Return rules that also take slots from cells of text, which may hold several values."""
    features: list[AnyFeatureOptions] = []
    for feature in options.features:
        is_slot = isinstance(feature, IdListOptions | DenseOptions)
        update = {"list_separator": table.list_separator} if is_slot else {}
        features.append(feature.model_copy(update=update))
    return options.model_copy(update={"features": tuple(features)})


def load_rules(folder: Folder, rules: InputRules) -> FeatureSet:
    """Return the features of a model; its vocabularies are read from its folder."""
    features = []
    for feature in rules.features.features:
        path = _vocabulary_path(feature)
        if path is not None:
            words = parse_vocabulary(folder.read_bytes(path), path=folder.url_of(path))
            feature = _replaced(feature, words=words)
        features.append(feature)
    try:
        return FeatureSet(rules.features.model_copy(update={"features": tuple(features)}))
    except DataError as error:
        raise CheckpointError(f"{folder.name}: damaged: {error}") from error


def _vocabulary_path(feature: AnyFeatureOptions) -> str | None:
    match feature:
        case FeatureOptions():
            return feature.buckets.vocabulary_path
        case IdListOptions():
            return feature.rule.vocabulary_path
        case DenseOptions():
            return None


def _replaced(
    feature: AnyFeatureOptions, *, path: str | None = None, words: tuple[str, ...] = ()
) -> AnyFeatureOptions:
    """Return a feature with another path of its vocabulary, or the words themselves."""
    update = {"vocabulary_path": path, "vocabulary": words}
    match feature:
        case FeatureOptions():
            return feature.model_copy(update={"buckets": feature.buckets.model_copy(update=update)})
        case IdListOptions():
            return feature.model_copy(update={"rule": feature.rule.model_copy(update=update)})
        case DenseOptions():
            return feature
