"""The class of a text by convolutions."""

# Shape suffixes: B samples, H hidden width.

from pydantic import Field
from torch import Tensor

from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.table_options import GrowthOptions
from fleetrec.models.text import TextEmbeddings
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.nn.text_cnn import TextCnn
from fleetrec.tasks.choice import ChoiceTask


class Model(base.Model):
    """TextCNN: convolutions of three widths over the words, the maximum of each, and a layer.

    Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014.
    """

    class Config(GrowthOptions):
        """Hyper-parameters of TextCNN."""

        dict_dim: int = Field(default=33257, gt=0, description="words")
        emb_dim: int = Field(default=128, gt=0, description="width of a word")
        max_len: int = Field(default=100, gt=0, description="words of a text")
        cnn_dim: int = Field(default=128, gt=0, description="filters of every width")
        cnn_filter_size1: int = Field(default=1, gt=0, description="words under a filter")
        cnn_filter_size2: int = Field(default=2, gt=0, description="of the second convolution")
        cnn_filter_size3: int = Field(default=3, gt=0, description="of the third convolution")
        hid_dim: int = Field(default=96, gt=0, description="width of the hidden layer")
        class_dim: int = Field(default=2, gt=1, description="classes")

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        text = TextEmbeddings(
            config,
            inputs=inputs,
            dim=config.emb_dim,
            num_words=config.dict_dim,
            max_length=config.max_len,
        )
        super().__init__(tasks=[ChoiceTask(label=text.label, num_classes=config.class_dim)])
        self.text = text
        sizes = (config.cnn_filter_size1, config.cnn_filter_size2, config.cnn_filter_size3)
        self.cnn = TextCnn(
            config.emb_dim, filter_sizes=sizes, num_filters=[config.cnn_dim] * 3, act="tanh"
        )
        self.mlp = Mlp(self.cnn.out_dim, (config.hid_dim,), activation="tanh")
        self.out = scaled_linear(config.hid_dim, config.class_dim)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logits`` and ``predict``, the probability of every class."""
        words = self.text(batch)
        logits = self.out(self.mlp(self.cnn(words.x_BLD, words.mask_BL)))
        return {"logits": logits, "predict": logits.softmax(dim=1)}
