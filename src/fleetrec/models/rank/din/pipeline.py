"""``model_class: "MultiTowerDIN"``: towers, and attention over ``seq_att_groups``."""

# Shape suffixes: B samples, X width.

import torch
from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.translate_sequences import layers_of
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import needed
from fleetrec.models.rank.multi_tower.towers import MultiTowerMessage, TowerModel
from fleetrec.nn.history_attention import HistoryAttention


class Model(TowerModel):
    """MultiTower with towers in which the keys of a group attend to its histories.

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018. ``din_towers``
    name groups of ``seq_att_groups``; the last width of their ``dnn`` is 1, the score.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        multi_tower: MultiTowerMessage | None = None

    model_class = "MultiTowerDIN"
    message = "multi_tower"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.multi_tower, "multi_tower")
        if options.bst_towers or not options.din_towers:
            raise ValueError("multi_tower: MultiTowerDIN needs din_towers, and has no bst_towers")
        super().__init__(config, options)
        self._groups = [tower.input for tower in options.din_towers]
        attention, width = [], 0
        for tower in options.din_towers:
            key_dim, dim = self.inputs.attention_dims(tower.input)
            if key_dim != dim:
                raise ValueError(
                    f"seq_att_groups {tower.input}: the keys have width {key_dim}, the histories "
                    f"{dim}; they must be equal"
                )
            attention.append(HistoryAttention(dim, layers_of(tower.dnn)))
            width += key_dim + dim
        self.attention = nn.ModuleList(attention)
        self.finish(width)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        parts = []
        for name, attention in zip(self._groups, self.attention, strict=True):
            found = self.inputs.attention_inputs(batch, name)
            pooled_BX = attention(found.key_BX, found.history_BLD, found.mask_BL)
            parts.append(torch.cat([pooled_BX, found.key_BX], dim=1))
        return self.outputs(self.logits(batch, parts))
