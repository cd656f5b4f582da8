"""Manifests of every form, checked by the schemas of Kubernetes and the models of Kubeflow."""

import pytest
from ruamel.yaml import YAML

from making_manifests import FORMS, rendered

pytestmark = pytest.mark.slow
VERSIONS = ("1.37", "1.36", "1.35")
OPERATORS = ("batch.volcano.sh/", "kubeflow.org/", "trainer.kubeflow.org/")


def objects_of(name, folder):
    return [
        dict(item) for _, text in rendered(name, folder) for item in YAML(typ="safe").load_all(text)
    ]


def pod_templates(value):
    """Find the templates of pods inside of an object of an operator."""
    if isinstance(value, list):
        return [found for item in value for found in pod_templates(item)]
    if not isinstance(value, dict):
        return []
    if "containers" in value.get("template", {}).get("spec", {}):
        return [value["template"]]
    return pod_templates(list(value.values()))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FORMS)
def test_objects_of_kubernetes_pass_the_strict_schemas(tmp_path, name, version):
    validator = pytest.importorskip("kubernetes_validate")
    for item in objects_of(name, tmp_path):
        if not item["apiVersion"].startswith(OPERATORS):
            validator.validate(item, version, strict=True)


@pytest.mark.parametrize("name", ["volcano_ps", "volcano_ranks", "pytorchjob"])
def test_pods_of_operators_pass_the_strict_schemas(tmp_path, name):
    validator = pytest.importorskip("kubernetes_validate")
    templates = pod_templates(objects_of(name, tmp_path)[-1])
    assert len(templates) == 2 if name != "volcano_ranks" else 1
    for template in templates:
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        validator.validate(pod, VERSIONS[0], strict=True)


def test_a_pytorch_job_has_the_keys_of_kubeflows_model(tmp_path):
    models = pytest.importorskip("kubeflow.training").models
    item = objects_of("pytorchjob", tmp_path)[-1]
    spec = item["spec"]
    known = models.KubeflowOrgV1PyTorchJobSpec.attribute_map.values()
    assert set(spec) <= set(known)
    assert set(spec["runPolicy"]) <= set(models.KubeflowOrgV1RunPolicy.attribute_map.values())
    for replica in spec["pytorchReplicaSpecs"].values():
        assert set(replica) <= set(models.KubeflowOrgV1ReplicaSpec.attribute_map.values())


def test_a_train_job_passes_kubeflows_model_and_loses_nothing(tmp_path):
    models = pytest.importorskip("kubeflow_trainer_api.models")
    item = objects_of("trainjob", tmp_path)[-1]
    parsed = models.TrainerV1alpha1TrainJob.from_dict(item)
    assert without_empty(parsed.to_dict()) == without_empty(item)


def without_empty(value):
    """Leave out what models leave out: None and empty mappings."""
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: without_empty(item) for name, item in value.items()}
    return {name: item for name, item in found.items() if item not in (None, {})}


def test_a_wrong_key_would_be_found(tmp_path):
    validator = pytest.importorskip("kubernetes_validate")
    item = next(item for item in objects_of("plain_ps", tmp_path) if item["kind"] == "StatefulSet")
    item["spec"]["replica"] = 2
    with pytest.raises(validator.ValidationError):
        validator.validate(item, VERSIONS[0], strict=True)
