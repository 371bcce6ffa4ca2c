"""Engines of accelerate that training refuses, with the reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from accelerate.utils import DistributedType

from agentgym.errors import ConfigError
from agentgym.trainers.update.sharding import check_engine


@pytest.mark.parametrize(
    ("kind", "version", "normalization", "message"),
    [
        (DistributedType.DEEPSPEED, 0, None, "DEEPSPEED is not supported: use DDP"),
        (DistributedType.MEGATRON_LM, 0, None, "MEGATRON_LM is not supported"),
        (DistributedType.FSDP, 1, None, "add --fsdp_version 2"),
        (DistributedType.FSDP, 2, "sum", "normalization = 'sum' .* leave it at None"),
    ],
)
def test_an_engine_is_refused(kind, version: int, normalization: str | None, message: str):
    accelerator = SimpleNamespace(distributed_type=kind, is_fsdp2=version == 2)
    with pytest.raises(ConfigError, match=message):
        check_engine(accelerator, normalization)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "version", "normalization"),
    [
        (DistributedType.NO, 0, "sum"),
        (DistributedType.MULTI_GPU, 0, "sum"),
        (DistributedType.FSDP, 2, None),
    ],
)
def test_an_engine_is_accepted(kind, version: int, normalization: str | None):
    accelerator = SimpleNamespace(distributed_type=kind, is_fsdp2=version == 2)
    check_engine(accelerator, normalization)  # type: ignore[arg-type]
