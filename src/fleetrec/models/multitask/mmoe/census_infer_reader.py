"""The reader of these files under the name that configs of PaddleRec have for it."""

from fleetrec.models.multitask.mmoe.census_reader import Reader as Reader
