"""Where the data of a job is, and with which user."""

import pytest

from fleetrec.config.cluster.keys import ConfigKeys
from fleetrec.config.cluster.storage import location_of, user_variables


@pytest.mark.parametrize(
    ("fs_name", "path", "location"),
    [
        ("hdfs://nn:8020", "/user/train", "hdfs://nn:8020/user/train"),
        ("hdfs://nn:8020/", "user/train", "hdfs://nn:8020/user/train"),
        ("hdfs://nn:8020", "s3://bucket/train", "s3://bucket/train"),
        ("", "/mnt/train", "/mnt/train"),
        ("hdfs://nn:8020", "", ""),
    ],
)
def test_paths_are_on_the_file_system_of_the_job(fs_name, path, location):
    config = ConfigKeys(fs_name=fs_name, train_data_path=path)
    assert location_of(config, "train_data_path") == location


@pytest.mark.parametrize(
    ("fs_name", "variables"),
    [
        ("hdfs://nn", {"FSSPEC_HDFS_USER": "me"}),
        ("s3://bucket", {"FSSPEC_S3_KEY": "me", "FSSPEC_S3_SECRET": "pwd,1"}),
        ("webhdfs://nn", {"FSSPEC_WEBHDFS_USER": "me", "FSSPEC_WEBHDFS_PASSWORD": "pwd,1"}),
        ("", {}),
    ],
)
def test_the_user_is_given_in_the_words_of_the_protocol(fs_name, variables):
    assert user_variables(ConfigKeys(fs_name=fs_name, fs_ugi="me,pwd,1")) == variables


def test_fsspec_reads_these_variables(monkeypatch):
    from fsspec.config import set_conf_env

    conf: dict = {}
    set_conf_env(conf, user_variables(ConfigKeys(fs_name="s3://b", fs_ugi="me,pwd")))
    assert conf == {"s3": {"key": "me", "secret": "pwd"}}
