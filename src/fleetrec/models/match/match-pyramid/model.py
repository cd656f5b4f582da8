"""How well two texts fit, by an image of how their words fit."""

# Shape suffixes: B samples, L words of the left text, R of the right one, D width, F filters.

from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.embedding.collection import Embedded, EmbeddedFeature, EmbeddingCollection
from fleetrec.embedding.table import Initializer
from fleetrec.models import base
from fleetrec.models.table_options import GrowthOptions
from fleetrec.nn.activation import ActivationName, activation
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.pairwise import PairwiseTask

WORDS = "words"
Size = tuple[int, int]


class Model(base.Model):
    """MatchPyramid: a convolution over the products of all words of two texts.

    Pang et al., "Text Matching as Image Recognition", AAAI 2016. The sparse slots are the left
    text, a right text that fits, and in training one that does not.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of MatchPyramid."""

        sentence_left_size: int = Field(default=20, gt=0, description="words of a left text")
        sentence_right_size: int = Field(default=500, gt=0, description="words of a right text")
        vocab_size: int = Field(default=193368, gt=0, description="words")
        emb_size: int = Field(default=50, gt=0, description="width of a word")
        emb_path: Path | None = Field(
            default=None, description="without effect: rows begin at random, or from a checkpoint"
        )
        channels: Literal[1] = Field(default=1, description="of the image, one")
        kernel_num: int = Field(default=8, gt=0, description="filters")
        conv_filter: Size = Field(default=(2, 10), description="height and width of a filter")
        conv_act: ActivationName = Field(default="relu", description="activation after filters")
        pool_size: Size = Field(default=(6, 50), description="height and width of a window")
        pool_stride: Size = Field(default=(6, 50), description="step between windows")
        pool_type: Literal["max", "avg"] = Field(default="max", description="what is taken of one")
        pool_padding: Literal["VALID"] = Field(default="VALID", description="windows lie inside")
        hidden_size: int = Field(default=20, gt=0, description="width of the hidden layer")
        hidden_act: ActivationName = Field(default="relu", description="its activation")
        out_size: Literal[1] = Field(default=1, description="outputs, one")
        margin: float = Field(default=1.0, gt=0, description="margin of the hinge")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        if len(inputs.sparse) < 2:
            raise ValueError("sparse_slots must be a left text and a right text")
        super().__init__(tasks=[PairwiseTask(margin=config.margin, positive="prediction")])
        sizes = (config.sentence_left_size, *[config.sentence_right_size] * 2)
        self._sizes = dict(zip(inputs.sparse, sizes, strict=False))
        start = Initializer(kind="normal", scale=0.1)
        self.embeddings = EmbeddingCollection(
            features=[
                EmbeddedFeature(feature=text, table=WORDS, combiner="none", max_length=size)
                for text, size in self._sizes.items()
            ],
            tables=[config.table(WORDS, config.emb_size, start, num_rows=config.vocab_size)],
        )
        height, width = config.conv_filter
        above, left = (height - 1) // 2, (width - 1) // 2
        # So that the image keeps its size.
        self._border = (left, width - 1 - left, above, height - 1 - above)
        self.conv = nn.Conv2d(1, config.kernel_num, config.conv_filter)
        self.conv_act = activation(config.conv_act, dim=config.kernel_num)
        kind = nn.MaxPool2d if config.pool_type == "max" else nn.AvgPool2d
        self.pool: nn.Module = kind(config.pool_size, stride=config.pool_stride)
        with torch.no_grad():
            pooled = self.pool(torch.zeros(1, config.kernel_num, *sizes[:2]))
        self.mlp = Mlp(pooled.numel(), (config.hidden_size,), activation=config.hidden_act)
        self.out = scaled_linear(config.hidden_size, 1, bias=False)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``prediction``, how well the texts fit, and the scores of training."""
        embedded = self.embeddings(batch)
        left, *rights = (self._text(embedded, name) for name in self._sizes)
        scores = [self._score(left, right) for right in rights]
        outputs = {"prediction": scores[0]}
        return outputs | {"negatives": torch.stack(scores[1:], dim=1)} if scores[1:] else outputs

    def _text(self, embedded: Embedded, name: str) -> Tensor:
        """Return x_BLD of a text, padded with zeros to its size."""
        size = self._sizes[name]
        return functional.pad(embedded.sequence(name).x_BLD, (0, 0, 0, size))[:, :size]

    def _score(self, left_BLD: Tensor, right_BRD: Tensor) -> Tensor:
        image_BLR = left_BLD @ right_BRD.transpose(1, 2)
        padded = functional.pad(image_BLR.unsqueeze(1), self._border)
        found_BFLR = self.pool(self.conv_act(self.conv(padded)))
        score_B1: Tensor = self.out(self.mlp(found_BFLR.flatten(1)))
        return score_B1.squeeze(1)
