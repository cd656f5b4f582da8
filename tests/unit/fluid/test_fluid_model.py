"""The model of a recorded program."""

from fleetrec import fluid
from fleetrec.fluid.model import GraphModel

L = fluid.layers


def click_model():
    x, click = L.data("x", [4]), L.data("click", [1], dtype="int64")
    predict = L.fc(L.fc(x, size=3), size=2, act="softmax")
    return predict, L.mean(L.cross_entropy(predict, click))


def test_outputs_are_what_labels_are_compared_with():
    predict, loss = click_model()
    model = GraphModel(predict.program, loss=loss, seed=0)
    assert [variable.name for variable in model._parts.outputs] == [predict.name]
    assert set(model.needed_features) == {"x", "click"}
    assert list(model.fetchable.values()) == [loss.name]


def test_weights_without_a_part_in_the_loss_are_not_trained():
    predict, loss = click_model()
    L.fc(predict, size=1)
    model = GraphModel(predict.program, loss=loss, seed=0)
    trained = {key for key, weight in model.weights.items() if weight.requires_grad}
    assert trained == {"fc_0_w_0", "fc_0_b_0", "fc_1_w_0", "fc_1_b_0"}
    assert set(model.weights) - trained == {"fc_2_w_0", "fc_2_b_0"}


def test_a_feature_can_be_looked_up_twice():
    item = L.data("item", [1], dtype="int64", lod_level=1)
    wide = L.sequence_pool(L.embedding(item, [9, 1]), "sum")
    deep = L.sequence_pool(L.embedding(item, [9, 4]), "average")
    loss = L.mean(L.concat([wide, deep], axis=1))
    model = GraphModel(loss.program, loss=loss, seed=0)
    names = {(f.feature, f.table) for f in model.embeddings.features}
    assert names == {("item", "embedding_0.w_0"), ("item", "embedding_1.w_0")}
    assert len(set(model.embeddings.columns)) == 2
