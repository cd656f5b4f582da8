"""The Fleet API: programs of one's own that train with parameter servers.

Its functions are those of one object, for a process has one part in one job.
"""

from fleetrec.config.entries import CountFilterEntry, ProbabilityEntry, ShowClickEntry
from fleetrec.fleet.dataset import DatasetFactory, InMemoryDataset, QueueDataset, Variable, data
from fleetrec.fleet.fleet import Fleet
from fleetrec.fleet.optimizer import SGD, Adagrad, Adam
from fleetrec.fleet.program import Program
from fleetrec.fleet.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from fleetrec.fleet.sparse_embedding import sparse_embedding
from fleetrec.fleet.strategy import (
    DistributedStrategy,
    DistributeTranspilerConfig,
    StrategyFactory,
)

__all__ = (
    "SGD",
    "Adagrad",
    "Adam",
    "CountFilterEntry",
    "DatasetFactory",
    "DistributeTranspilerConfig",
    "DistributedStrategy",
    "InMemoryDataset",
    "PaddleCloudRoleMaker",
    "ProbabilityEntry",
    "Program",
    "QueueDataset",
    "Role",
    "ShowClickEntry",
    "StrategyFactory",
    "UserDefinedRoleMaker",
    "Variable",
    "barrier_worker",
    "data",
    "distributed_optimizer",
    "exchange",
    "infer_from_dataset",
    "init",
    "init_server",
    "init_worker",
    "is_first_worker",
    "is_server",
    "is_worker",
    "load_model",
    "run_server",
    "save_inference_model",
    "save_persistables",
    "server_endpoints",
    "server_index",
    "server_num",
    "shrink",
    "sparse_embedding",
    "stop_worker",
    "train_from_dataset",
    "util",
    "worker_endpoints",
    "worker_index",
    "worker_num",
)

_FLEET = Fleet()

init = _FLEET.init
is_worker = _FLEET.is_worker
is_server = _FLEET.is_server
is_first_worker = _FLEET.is_first_worker
worker_index = _FLEET.worker_index
server_index = _FLEET.server_index
worker_num = _FLEET.worker_num
server_num = _FLEET.server_num
worker_endpoints = _FLEET.worker_endpoints
server_endpoints = _FLEET.server_endpoints
distributed_optimizer = _FLEET.distributed_optimizer
init_server = _FLEET.init_server
run_server = _FLEET.run_server
init_worker = _FLEET.init_worker
stop_worker = _FLEET.stop_worker
exchange = _FLEET.exchange
train_from_dataset = _FLEET.train_from_dataset
infer_from_dataset = _FLEET.infer_from_dataset
save_persistables = _FLEET.save_persistables
save_inference_model = _FLEET.save_inference_model
load_model = _FLEET.load_model
shrink = _FLEET.shrink
barrier_worker = _FLEET.barrier_worker
util = _FLEET.util
