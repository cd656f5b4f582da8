"""The first phase of FNN: the factorization machine whose rows it starts from."""

from fleetrec.models.rank.fm.model import Model

__all__ = ("Model",)
