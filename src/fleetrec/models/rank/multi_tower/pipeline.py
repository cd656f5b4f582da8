"""``model_class: "MultiTower"``: an MLP for each group of features, and one over all of them."""

from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.group_model import needed
from fleetrec.models.rank.multi_tower.towers import MultiTowerMessage, TowerModel


class Model(TowerModel):
    """Each group has batch normalisation and an MLP; a final MLP takes their outputs."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        multi_tower: MultiTowerMessage | None = None

    model_class = "MultiTower"
    message = "multi_tower"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.multi_tower, "multi_tower")
        if options.din_towers or options.bst_towers:
            raise ValueError(
                "multi_tower: din_towers are for MultiTowerDIN, bst_towers for MultiTowerBST"
            )
        super().__init__(config, options)
        self.finish()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, or the predicted value of a regression."""
        return self.outputs(self.logits(batch, ()))
