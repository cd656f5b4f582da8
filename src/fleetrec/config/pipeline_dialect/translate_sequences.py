"""From ``sequence_features`` and ``seq_att_groups`` to attention over sequences."""

from collections.abc import Callable, Collection

from fleetrec.config.groups import (
    DIN_LAYERS,
    ActivationName,
    AttentionOptions,
    GroupFeature,
    LayersOptions,
)
from fleetrec.config.pipeline_dialect.model import Dnn, SeqAttGroup

# Returns a feature in a group of another name, or None after it has noted a problem.
FeatureIn = Callable[[str, str], GroupFeature | None]
Note = Callable[[str, str], None]  # a field of the message, and what is wrong with it


def attention_options(
    message: SeqAttGroup, *, name: str, present: Collection[str], feature_in: FeatureIn, note: Note
) -> AttentionOptions | None:
    """Return the attention of a message; None after a problem was noted.

    ``present`` are the features of the group around it, whose vectors are its keys.
    """
    keys = [key for one in message.seq_att_map for key in one.key]
    history = [each for one in message.seq_att_map for each in one.hist_seq]
    aux = [each for one in message.seq_att_map for each in one.aux_hist_seq]
    if not keys or not history:
        note("seq_att_map", "expected at least one key and one hist_seq")
        return None
    lost = [key for key in keys if key not in present]
    if lost and present and not message.allow_key_search:
        note(
            "seq_att_map",
            f"key {lost[0]!r} is not in the feature group; add it, or set allow_key_search: true",
        )
    own_keys = [feature_in(name, key) for key in dict.fromkeys(lost)]
    steps = [feature_in(name, each) for each in dict.fromkeys((*history, *aux))]
    if None in (*own_keys, *steps):
        return None
    found = {one.name: one for one in steps if one is not None}
    plain = [one.name for one in found.values() if one.sequence is None]
    if plain:
        note("seq_att_map", f"{plain[0]!r} is no SequenceFeature, as a hist_seq must be")
        return None
    return AttentionOptions(
        name=name,
        keys=tuple(keys),
        own_keys=tuple(one for one in own_keys if one is not None),
        history=tuple(found[each] for each in history),
        aux=tuple(found[each] for each in aux),
        layers=layers_of(message.seq_dnn) if message.seq_dnn else DIN_LAYERS,
        needs_key=message.need_key_feature,
        transforms_key=message.allow_key_transform,
        transforms_deeply=message.transform_dnn,
    )


def layers_of(dnn: Dnn) -> LayersOptions:
    """Return the layers that a message describes."""
    name: ActivationName = dnn.activation.rpartition(".")[2]  # type: ignore[assignment]
    return LayersOptions(
        hidden=dnn.hidden,
        dropout=dnn.dropout_ratio,
        activation=name,
        batch_norm=dnn.use_bn,
    )
