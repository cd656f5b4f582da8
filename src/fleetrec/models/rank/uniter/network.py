"""The network of Uniter: one transformer over the tokens of images and texts."""

# Shape suffixes: B samples, L tokens, H hidden width.

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from fleetrec.config.pipeline_dialect.activations import ACTIVATIONS
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import Dnn
from fleetrec.core.batch import Batch
from fleetrec.models.groups import GroupEmbeddings
from fleetrec.models.rank.cmbf.network import GENERAL, IMAGE, TEXT, ModalNetwork
from fleetrec.nn.encoder_block import EncoderBlock, EncoderDropout
from fleetrec.nn.sequence_tokens import SequenceTokens, all_true


class UniterTower(Message):
    """``config`` of Uniter, and ``bottom_uniter`` of DBMTL."""

    hidden_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(default=0.1, ge=0, lt=1)
    max_position_embeddings: int = Field(default=512, gt=0)
    use_position_embeddings: bool = True
    initializer_range: float = Field(default=0.02, gt=0)
    other_feature_dnn: Dnn | None = None

    @field_validator("hidden_act")
    @classmethod
    def _check_activation(cls, name: str) -> str:
        if name not in ACTIVATIONS:
            raise ValueError(f"expected one of {', '.join(ACTIVATIONS)}")
        return name


class UniterNetwork(ModalNetwork):
    """A transformer over a token of its own, image features, general features and sequences.

    Chen et al., "UNITER: UNiversal Image-TExt Representation Learning", ECCV 2020. The result is
    the vector of the own token.
    """

    def __init__(self, options: UniterTower, inputs: GroupEmbeddings) -> None:
        super().__init__(inputs, options.other_feature_dnn)
        hidden = options.hidden_size
        if hidden % options.num_attention_heads:
            raise ValueError("num_attention_heads must divide hidden_size")
        scale = options.initializer_range
        self.own_H = nn.Parameter(torch.randn(hidden) * scale)
        positions = options.max_position_embeddings if options.use_position_embeddings else 0
        self.groups = nn.ModuleDict()
        for name in (IMAGE, GENERAL):
            if self.has(name):
                count = len(inputs.names(name)) if name == IMAGE and positions else 0
                self.groups[name] = SequenceTokens(
                    inputs.common_dim(name),
                    hidden,
                    num_positions=count,
                    has_kind=True,
                    dropout=options.hidden_dropout_prob,
                )
        self.sequences = nn.ModuleList(
            SequenceTokens(
                dim,
                hidden,
                num_positions=positions,
                has_kind=True,
                dropout=options.hidden_dropout_prob,
            )
            for dim in (inputs.sequence_dims(TEXT) if self.has(TEXT) else ())
        )
        is_alone = not (self.groups or self.sequences)
        self.layers = nn.ModuleList(
            EncoderBlock(
                hidden,
                num_heads=options.num_attention_heads,
                key_dim=hidden // options.num_attention_heads,
                hidden_dim=options.intermediate_size,
                act=options.hidden_act,  # type: ignore[arg-type]
                dropout=EncoderDropout(
                    output=options.hidden_dropout_prob,
                    attention=options.attention_probs_dropout_prob,
                ),
            )
            for _ in range(0 if is_alone else options.num_hidden_layers)
        )
        self.out_dim = (0 if is_alone else hidden) + self.other_dim

    def forward(self, inputs: GroupEmbeddings, batch: Batch) -> Tensor:
        """Return one vector per sample."""
        tokens, masks = [], []
        for name, module in self.groups.items():
            x_BLD = inputs.stack(batch, name)
            one_BLH, mask_BL = module(x_BLD, all_true(x_BLD))
            tokens.append(one_BLH)
            masks.append(mask_BL)
        found = inputs.sequences(batch, TEXT) if len(self.sequences) else []
        for module, sequence in zip(self.sequences, found, strict=True):
            one_BLH, mask_BL = module(sequence.x_BLD, sequence.mask_BL)
            tokens.append(one_BLH)
            masks.append(mask_BL)
        if not tokens:
            return self.joined([], inputs, batch)
        own_B1H = self.own_H.expand(tokens[0].shape[0], 1, -1)
        x_BLH = torch.cat([own_B1H, *tokens], dim=1)
        mask_BL = torch.cat([all_true(own_B1H), *masks], dim=1)
        for layer in self.layers:
            x_BLH = layer(x_BLH, mask_BL)
        return self.joined([x_BLH[:, 0]], inputs, batch)
