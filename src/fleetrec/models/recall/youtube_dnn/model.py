"""Which video is watched next, from vectors of what was watched and searched."""

# Shape suffixes: B samples, H last hidden width, V videos.

from pydantic import Field
from torch import Tensor

from fleetrec.config.options import Options
from fleetrec.core.batch import Batch, Inputs
from fleetrec.models import base
from fleetrec.models.dense_values import DenseValues
from fleetrec.models.fields import label_of
from fleetrec.nn.mlp import Mlp, scaled_linear
from fleetrec.tasks.choice import ChoiceTask

FEATURES = ("watch_vec", "search_vec", "other_feat")


class Model(base.Model):
    """YouTube DNN: an MLP over three vectors of a user, then a softmax over all videos.

    Covington, Adams and Sargin, "Deep Neural Networks for YouTube Recommendations", RecSys 2016.
    ``user_vector`` is what an index of the videos' weights (``out.weight``) is searched with.
    """

    class Config(Options):
        """Hyper-parameters of the YouTube DNN."""

        watch_vec_size: int | None = Field(
            default=None, gt=0, description="if given, must equal the width of watch_vec"
        )
        search_vec_size: int | None = Field(
            default=None, gt=0, description="if given, must equal the width of search_vec"
        )
        other_feat_size: int | None = Field(
            default=None, gt=0, description="if given, must equal the width of other_feat"
        )
        output_size: int = Field(default=100, gt=0, description="videos")
        layers: tuple[int, ...] = Field(default=(128, 64, 32), description="widths of the layers")

    output_aliases = {"l3.tmp_2": "user_vector", "fc_2.tmp_2": "user_vector"}

    def __init__(self, config: Config, *, inputs: Inputs) -> None:
        label = label_of(inputs)
        super().__init__(tasks=[ChoiceTask(label=label, num_classes=config.output_size)])
        sizes = (config.watch_vec_size, config.search_vec_size, config.other_feat_size)
        missing = [name for name in FEATURES if name not in inputs.dense]
        if missing:
            raise ValueError(f"dense_slots lacks {', '.join(missing)}")
        for name, size in zip(FEATURES, sizes, strict=True):
            found = DenseValues(inputs, [name]).width
            if size not in (None, found):
                raise ValueError(f"{name} is {found} wide, the hyper-parameters say {size}")
        self._values = DenseValues(inputs, FEATURES)
        self.mlp = Mlp(self._values.width, config.layers)
        self.out = scaled_linear(self.mlp.out_dim, config.output_size)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return ``logits``, one per video, and ``user_vector``."""
        user_BH = self.mlp(self._values.of(batch))
        return {"logits": self.out(user_BH), "user_vector": user_BH}
