"""Parameter Store refuses values that are too large for their tier, as AWS does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.server import LocalCloud


@pytest.fixture
def ssm(tmp_path: Path) -> Iterator[Any]:
    with LocalCloud(None, tmp_path) as cloud:
        yield cloud.client("ssm")


@pytest.mark.parametrize(
    ("tier", "most"), [({}, 4096), ({"Tier": "Standard"}, 4096), ({"Tier": "Intelligent-Tiering"}, 8192)]
)
def test_a_value_may_be_as_large_as_its_tier_allows(ssm: Any, tier: dict[str, str], most: int) -> None:
    ssm.put_parameter(Name="fits", Value="x" * most, Type="String", **tier)
    with pytest.raises(ClientError, match=f"maximum parameter value of {most}"):
        ssm.put_parameter(Name="too-large", Value="x" * (most + 1), Type="String", **tier)
