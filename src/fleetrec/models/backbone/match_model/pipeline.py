"""``model_class: "MatchModel"``: a backbone whose outputs are a user and an item vector."""

# Shape suffixes: B samples, N sampled items, D width.

from collections.abc import Iterator

from torch import Tensor

from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.pipeline_dialect.backbone import Backbone
from fleetrec.config.pipeline_dialect.model_params import ModelParams
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models.backbone.model import BackboneModel
from fleetrec.models.backbone.sources import NegativeSource
from fleetrec.models.backbone.values import matrix
from fleetrec.models.group_model import needed
from fleetrec.models.match.towers import VectorPair, check_widths
from fleetrec.models.match_scores import match_task


class Model(BackboneModel):
    """Two of ``output_blocks`` are compared as the towers of DSSM are."""

    class Config(GroupModelOptions):
        """Options of the model in a pipeline."""

        model_params: ModelParams | None = None

    model_class = "MatchModel"
    message = "model_params"

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        del inputs
        options = needed(config.backbone, "backbone")
        params = config.model_params or ModelParams()
        self._places = (params.user_tower_idx_in_output, params.item_tower_idx_in_output)
        if options.top_mlp is not None:
            raise ValueError("backbone: MatchModel needs output_blocks, and no top_mlp")
        names = options.output_blocks
        if len(names) <= max(self._places):
            raise ValueError(
                f"backbone: MatchModel needs at least {max(self._places) + 1} output_blocks, got "
                f"{len(names)}"
            )
        self._item_block = names[self._places[1]]
        found = dict.fromkeys(groups_below(options, self._item_block))
        known = [group.name for group in config.groups]
        negatives = [name for name in found if name in known] if config.has_negatives else []
        super().__init__(config, params, tasks=[match_task(config)], negatives=negatives)
        check_widths(*(self.backbone.out_dims[place] for place in self._places), name="backbone")
        self.pair = VectorPair(config, params, scales=params.scale_simi)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return logits and probabilities, and the vectors of both towers."""
        computed = self.compute(batch)
        user_BD, item_BD = (
            self.pair.normalised(matrix(computed.value[place])) for place in self._places
        )
        outputs = self.pair.outputs(
            batch,
            user_BD,
            item_BD,
            negatives=lambda: self._negatives(batch),
            point_wise=self.outputs,
        )
        return {**outputs, **computed.outputs()}

    def _negatives(self, batch: Batch) -> Tensor:
        run = self.backbone.start(NegativeSource(self.inputs, batch))
        return matrix(run.block(self._item_block))


def groups_below(options: Backbone, block: str) -> Iterator[str]:
    """Yield the names of groups, and of blocks, that a block depends on."""
    blocks = {one.name: one for one in options.blocks}
    packages = {one.name: one for one in options.packages}
    waiting, seen = [block], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        inner = [blocks[name]] if name in blocks else []
        if name in packages:
            inner += packages[name].blocks
        for one in (one for each in inner for one in each.inputs):
            sources = (one.feature_group_name, one.block_name, one.package_name, one.package_input)
            for source in sources:
                if source is None:
                    continue
                yield source
                if source != name:
                    waiting.append(source)
