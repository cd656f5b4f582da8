"""The reader of these files under the name that configs of PaddleRec have for it."""

from fleetrec.models.recall.ncf.movielens_reader import Reader as Reader
