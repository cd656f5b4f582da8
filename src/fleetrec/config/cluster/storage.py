"""Where the data of a job is, and how a node gets it."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from fleetrec.config.cluster.keys import ConfigKeys
from fleetrec.config.document import Location
from fleetrec.core.storage import SEPARATOR, has_credentials

# Folders on a node, and the keys that say what they hold.
FOLDERS = (
    ("train_data", "train_data_path"),
    ("test_data", "test_data_path"),
    ("thirdparty", "thirdparty_path"),
    ("afs", "afs_remote_mount_point"),
)
PATHS = (*(key for _, key in FOLDERS), "output_path")

# How file systems of fsspec name the user and the password.
_USER_OPTIONS = MappingProxyType(
    {
        "hdfs": ("user", None),
        "arrow_hdfs": ("user", None),
        "webhdfs": ("user", "password"),
        "ftp": ("username", "password"),
        "sftp": ("username", "password"),
        "ssh": ("username", "password"),
        "smb": ("username", "password"),
        "s3": ("key", "secret"),
        "s3a": ("key", "secret"),
        "oss": ("key", "secret"),
    }
)


def location_of(config: ConfigKeys, key: str) -> str:
    """Return the URL or path of a key; empty if it is not given.

    Paths are on the file system ``fs_name``, or on the nodes themselves if it is empty.
    """
    value: str = getattr(config, key)
    if not value or SEPARATOR in value or not config.fs_name:
        return value
    return f"{config.fs_name.rstrip('/')}/{value.lstrip('/')}"


def user_variables(config: ConfigKeys) -> Mapping[str, str]:
    """Return ``fs_ugi`` as variables that give fsspec the user of the file system."""
    options = _USER_OPTIONS.get(protocol_of(config.fs_name))
    if not config.fs_ugi or options is None:
        return {}
    values = config.fs_ugi.split(",", 1)
    prefix = f"FSSPEC_{protocol_of(config.fs_name).upper()}_"
    return {
        f"{prefix}{name.upper()}": value
        for name, value in zip(options, values, strict=False)
        if name is not None
    }


def protocol_of(url: str) -> str:
    """Return the name of the file system of a URL."""
    return url.partition(SEPARATOR)[0].lower() if SEPARATOR in url else ""


def storage_problems(config: ConfigKeys) -> Iterator[tuple[Location, str]]:
    """Yield what no node could fetch or upload."""
    from fsspec.registry import (  # type: ignore[import-untyped]
        known_implementations,
        registry,
    )

    known = {*known_implementations, *registry}
    if config.fs_name and SEPARATOR not in config.fs_name:
        came = repr(config.fs_name)
        yield ("config", "fs_name"), f"expected a URL such as hdfs://host:port, got {came}"
        return
    for key in PATHS:
        protocol = protocol_of(location_of(config, key))
        at = key if SEPARATOR in getattr(config, key) else "fs_name"
        if protocol and protocol not in known:
            text = f"no file system of fsspec is called {protocol!r}"
            if protocol == "afs":
                text += "; only backend: PaddleCloud can read it"
            yield ("config", at), text
    for key in ("fs_name", *PATHS):
        if has_credentials(getattr(config, key)):
            yield ("config", key), "expected a URL without credentials; use fs_ugi"
    yield from _user_problems(config, is_known=protocol_of(config.fs_name) in known)


def _user_problems(config: ConfigKeys, *, is_known: bool) -> Iterator[tuple[Location, str]]:
    at = ("config", "fs_ugi")
    protocol = protocol_of(config.fs_name)
    if not config.fs_ugi:
        return
    if not config.fs_name:
        yield at, "has no effect without fs_name"
    elif is_known and protocol not in _USER_OPTIONS:
        yield (
            at,
            f"{protocol} has no user and password; leave its credentials to the environment",
        )
    elif is_known and _USER_OPTIONS[protocol][1] and "," not in config.fs_ugi:
        yield at, "expected user,password"
