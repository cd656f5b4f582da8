"""``model_class: "MultiTowerBST"``: towers, and a transformer over ``seq_att_groups``."""

from torch import Tensor, nn

from fleetrec.config.groups import GroupModelOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import needed
from fleetrec.models.rank.multi_tower.towers import BstTower, MultiTowerMessage, TowerModel
from fleetrec.nn.behaviour_transformer import BehaviourTransformer, TransformerSize


class Model(TowerModel):
    """MultiTower with towers in which histories and their keys attend to each other.

    Chen et al., "Behavior Sequence Transformer for E-commerce Recommendation in Alibaba", DLP-KDD
    2019. ``bst_towers`` name groups of ``seq_att_groups``, of which at most ``seq_len`` elements
    are used; ``multi_head_size`` is the number of heads.
    """

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        multi_tower: MultiTowerMessage | None = None

    model_class = "MultiTowerBST"
    message = "multi_tower"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.multi_tower, "multi_tower")
        if options.din_towers or not options.bst_towers:
            raise ValueError("multi_tower: MultiTowerBST needs bst_towers, and has no din_towers")
        super().__init__(config, options)
        self._groups = [tower.input for tower in options.bst_towers]
        encoders = [self._encoder(tower) for tower in options.bst_towers]
        self.encoders = nn.ModuleList(encoders)
        self.finish(sum(encoder.out_dim for encoder in encoders))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        parts = []
        for name, encoder in zip(self._groups, self.encoders, strict=True):
            found = self.inputs.attention_inputs(batch, name)
            parts.append(encoder(found.history_BLD, found.mask_BL, found.key_BX))
        return self.outputs(self.logits(batch, parts))

    def _encoder(self, tower: BstTower) -> BehaviourTransformer:
        key_dim, dim = self.inputs.attention_dims(tower.input)
        if key_dim != dim:
            raise ValueError(
                f"seq_att_groups {tower.input}: the keys have width {key_dim}, the histories "
                f"{dim}; they must be equal"
            )
        size = TransformerSize(
            hidden=dim,
            num_layers=1,
            num_heads=tower.multi_head_size,
            intermediate=dim,
            act="relu",
        )
        return BehaviourTransformer(dim, size=size, length=tower.seq_len, target="tail")
