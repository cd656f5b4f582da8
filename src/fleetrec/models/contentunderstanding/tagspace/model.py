"""Texts and tags in one space."""

# Shape suffixes: B samples, T tags, D width.

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.table_options import GrowthOptions
from fleetrec.models.text import TextEmbeddings
from fleetrec.nn.mlp import scaled_linear
from fleetrec.nn.text_cnn import TextCnn
from fleetrec.nn.weights import scaled_weight
from fleetrec.tasks.choice import ChoiceTask


class Model(base.Model):
    """TagSpace: a convolution over the words of a text, compared with a vector of every tag.

    Weston, Chopra and Adams, "#TagSpace: Semantic Embeddings from Hashtags", EMNLP 2014. The hinge
    compares the tag of a text with those of the other tags that are closest to the text.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of TagSpace."""

        vocab_text_size: int = Field(default=75378, gt=0, description="words")
        vocab_tag_size: int = Field(default=4, gt=1, description="tags")
        emb_dim: int = Field(default=10, gt=0, description="width of words, texts and tags")
        hid_dim: int = Field(default=1000, gt=0, description="filters of the convolution")
        win_size: int = Field(default=5, gt=0, description="words under a filter")
        margin: float = Field(default=0.1, gt=0, description="margin of the hinge")
        neg_size: int = Field(default=3, gt=0, description="other tags that are compared")
        max_length: int = Field(default=500, gt=0, description="words of a text, the last ones")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        text = TextEmbeddings(
            config,
            inputs=inputs,
            dim=config.emb_dim,
            num_words=config.vocab_text_size,
            max_length=config.max_length,
        )
        task = ChoiceTask(
            label=text.label,
            num_classes=config.vocab_tag_size,
            margin=config.margin,
            num_negatives=config.neg_size,
        )
        super().__init__(tasks=[task])
        self.text = text
        self.cnn = TextCnn(
            config.emb_dim,
            filter_sizes=[config.win_size],
            num_filters=[config.hid_dim],
            act="tanh",
        )
        self.of_text = scaled_linear(config.hid_dim, config.emb_dim)
        self.tags = scaled_weight(config.vocab_tag_size, config.emb_dim, fan_in=config.emb_dim)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logits``, the cosine of text and tag for every tag, and ``text_vector``."""
        words = self.text(batch)
        text_BD = self.of_text(self.cnn(words.x_BLD, words.mask_BL))
        logits_BT = functional.normalize(text_BD, dim=1) @ functional.normalize(self.tags, dim=1).T
        return {"logits": logits_BT, "text_vector": text_BD}
