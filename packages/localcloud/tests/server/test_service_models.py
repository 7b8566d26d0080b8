"""What botocore says about a service is decoded once, whoever asks."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore.loaders import JSONFileLoader

from localcloud.extensions.shorter_ways import keep_decoded


def test_a_second_session_decodes_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_decoded()
    first = boto3.Session(region_name="us-east-1").client("ec2", endpoint_url="http://127.0.0.1:1")
    decoded: list[str] = []
    monkeypatch.setattr(JSONFileLoader, "_load_file", lambda _, path, how: decoded.append(path))
    second = boto3.Session(region_name="eu-west-1").client("ec2", endpoint_url="http://127.0.0.1:1")
    assert second.meta.service_model.operation_names == first.meta.service_model.operation_names
    assert [path for path in decoded if Path(path).is_file()] == []
