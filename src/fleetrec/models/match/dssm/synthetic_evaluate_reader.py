"""The reader of these files under the name that configs of PaddleRec have for it."""

from fleetrec.models.match.dssm.synthetic_reader import Reader as Reader
