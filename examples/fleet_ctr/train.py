"""Click-through rate with the Fleet API: one program, for one process and for many.

python train.py --is_local 1
python -m fleetrec.launch_ps --worker_num 2 --server_num 2 train.py
"""

import shlex
import sys
from pathlib import Path

import torch
from args import parse_args
from network_conf import CtrDnn

from fleetrec import fleet
from fleetrec.fleet import role_maker

dense_feature_dim = 13
sparse_feature_dim = 10000001
batch_size = 100
thread_num = 10
embedding_size = 10
args = parse_args()


def main_function(is_local: int) -> None:
    """Describe data and model, then train, alone or with others."""
    # common code for local training and distributed training
    dense_input = fleet.data(name="dense_input", shape=[dense_feature_dim], dtype="float32")
    sparse_input_ids = [
        fleet.data(name="C" + str(i), shape=[1], lod_level=1, dtype="int64") for i in range(1, 27)
    ]
    label = fleet.data(name="label", shape=[1], dtype="int64")

    dataset = fleet.DatasetFactory().create_dataset()
    dataset.set_use_var([dense_input, *sparse_input_ids, label])
    python = shlex.quote(sys.executable)
    dataset.set_pipe_command(f"{python} criteo_reader.py {sparse_feature_dim}")
    dataset.set_batch_size(batch_size)
    dataset.set_thread(thread_num)

    whole_filelist = [
        f"{args.data}/part-{x}" for x in range(len(list(Path(args.data).glob("part-*"))))
    ]
    torch.manual_seed(0)
    model = CtrDnn(
        CtrDnn.Config(embedding_size=embedding_size, sparse_feature_dim=sparse_feature_dim),
        inputs=dataset.inputs,
    )
    optimizer = fleet.SGD(learning_rate=args.learning_rate)

    def train_loop(program: fleet.Program) -> None:
        for _ in range(args.epochs):
            fleet.train_from_dataset(
                program, dataset, fetch_list=["AUC"], fetch_info=["auc"], debug=False
            )
        if args.save:
            fleet.save_persistables(program, args.save)

    # local training
    def local_train() -> None:
        program = optimizer.minimize(model)
        dataset.set_filelist(whole_filelist)
        train_loop(program)

    # distributed training
    def dist_train() -> None:
        role = role_maker.PaddleCloudRoleMaker()
        fleet.init(role)
        strategy = fleet.DistributeTranspilerConfig()
        strategy.sync_mode = False
        program = fleet.distributed_optimizer(optimizer, strategy).minimize(model)

        if fleet.is_server():
            fleet.init_server()
            fleet.run_server()
        elif fleet.is_worker():
            fleet.init_worker()
            dataset.set_filelist(fleet.util.get_file_shard(whole_filelist))
            train_loop(program)
            fleet.stop_worker()

    if is_local:
        local_train()
    else:
        dist_train()


if __name__ == "__main__":
    main_function(args.is_local)
