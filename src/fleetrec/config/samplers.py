"""Sampled negative items for every batch, from local files of items and edges."""

from typing import Literal

from pydantic import Field

from fleetrec.config.options import Options

SAMPLED = "sampler:"  # before the columns of the samples that a sampler needs
OWNER, SLOT = "sampler:owner", "sampler:slot"

SamplerKind = Literal["not_in_batch", "not_in_batch_uniform", "without_edge"]


class SamplerOptions(Options):
    """Which items are drawn, and from which files.

    ``not_in_batch`` draws by the weights of items that no sample of the batch has (``uniform``:
    each with the same probability, and at most once); ``without_edge`` those that have no positive
    edge to a user of the batch, a share for every user. With ``hard_path`` the items with an edge
    to the user of a sample follow, at most ``num_hard`` of each. ``attributes`` are the columns
    that the text of an item holds, separated by ``attribute_separator``.
    """

    kind: SamplerKind
    num_samples: int = Field(gt=0)
    item_path: str
    item_column: str
    user_column: str = ""
    positive_path: str = ""
    hard_path: str = ""
    num_hard: int = Field(default=0, ge=0)
    attributes: tuple[str, ...] = Field(min_length=1)
    attribute_separator: str = Field(default=":", min_length=1)
    field_separator: str = Field(default="\x01", min_length=1)
