"""Who a process is."""

from fleetrec.fleet.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from fleetrec.fluid.missing import missing

__all__ = ("PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker")

__getattr__ = missing("fluid.incubate.fleet.base.role_maker", __all__)
