"""Hyper-parameters that configs of PaddleRec have, also where their model does not read them."""

CARRIED_KEYS = frozenset(
    {
        "act",
        "corpus_size",
        "d_key",
        "d_model",
        "d_value",
        "dense_input_dim",
        "distributed_embedding",
        "dropout_rate",
        "fc_sizes",
        "is_sparse",
        "num_devices",
        "num_field",
        "postprocess_cmd",
        "preprocess_cmd",
        "query_slots",
        "reg",
        "seeds_num",
        "sparse_feature_dim",
        "sparse_feature_number",
        "sparse_feature_nums",
        "sparse_inputs_slots",
        "title_slots",
        "use_DataLoader",
        "with_shuffle_batch",
    }
)
