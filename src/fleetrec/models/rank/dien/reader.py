"""The reader of these files under the name that configs of PaddleRec have for it."""

from fleetrec.models.rank.din.reader import Reader as Reader
