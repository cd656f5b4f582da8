"""A deep click model, written for Fluid."""

import math

import fleetrec.fluid as fluid


def ctr_dnn_model_dataset(dense_input, sparse_inputs, label, embedding_size, sparse_feature_dim):
    def embedding_layer(input):
        emb = fluid.layers.embedding(
            input=input,
            is_sparse=True,
            is_distributed=False,
            size=[sparse_feature_dim, embedding_size],
            param_attr=fluid.ParamAttr(
                name="SparseFeatFactors", initializer=fluid.initializer.Uniform()
            ),
        )
        return fluid.layers.sequence_pool(input=emb, pool_type="average")

    def fc_layer(input):
        return fluid.layers.fc(
            input=input,
            size=400,
            act="relu",
            param_attr=fluid.ParamAttr(
                initializer=fluid.initializer.Normal(scale=1 / math.sqrt(input.shape[1]))
            ),
        )

    sparse_embed_seq = list(map(embedding_layer, sparse_inputs))
    concated = fluid.layers.concat(sparse_embed_seq + [dense_input], axis=1)
    fc3 = fc_layer(fc_layer(fc_layer(concated)))
    predict = fluid.layers.fc(
        input=fc3,
        size=2,
        act="softmax",
        param_attr=fluid.ParamAttr(
            initializer=fluid.initializer.Normal(scale=1 / math.sqrt(fc3.shape[1]))
        ),
    )
    cost = fluid.layers.cross_entropy(input=predict, label=label)
    avg_cost = fluid.layers.reduce_sum(cost)
    fluid.layers.accuracy(input=predict, label=label)
    auc_var, batch_auc_var, _auc_states = fluid.layers.auc(
        input=predict, label=label, num_thresholds=2**12, slide_steps=20
    )
    return avg_cost, auc_var, batch_auc_var
