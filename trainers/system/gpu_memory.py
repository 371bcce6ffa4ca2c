"""Memory of a GPU: that which a process may still take, and shares for processes side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import torch

CONTEXT = 1 << 30
"""Bytes that CUDA and its libraries take for each process, beside the memory of PyTorch."""
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
"""Environment variable of the settings of PyTorch's allocator: name:value pairs with commas."""
ASK = (
    "import json, torch; "
    "print(json.dumps([torch.cuda.get_device_name(), *torch.cuda.mem_get_info()]))"
)


def free_bytes(device: torch.device) -> int:
    """Returns the bytes that this process may still allocate on a GPU.

    They are the free memory of the GPU and that which PyTorch keeps unused, and not more than the
    share of the process (`per_process_memory_fraction` of PyTorch's allocator) leaves.

    Args:
        device: the GPU.
    """
    free, total = torch.cuda.mem_get_info(device)
    reserved, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    share = torch.cuda.get_per_process_memory_fraction(device)
    return min(free + reserved, int(share * total)) - used


@dataclass(frozen=True)
class Card:
    """A GPU.

    Attributes:
        name: its name.
        free: bytes that no process uses.
        total: bytes of its memory.
    """

    name: str
    free: int
    total: int

    def share(self, jobs: int) -> int:
        """Returns the bytes of each of some processes side by side, beside their contexts."""
        return max(0, self.free // jobs - CONTEXT)

    def variables(self, jobs: int, given: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment variables that hold each of some processes to its share.

        Args:
            jobs: number of processes.
            given: environment variables, whose settings of the allocator are kept.
        """
        share = f"per_process_memory_fraction:{self.share(jobs) / self.total:.4f}"
        return {ALLOCATOR: ",".join(filter(None, [given.get(ALLOCATOR), share]))}


def find_card() -> Card | None:
    """Returns the GPU that a new process uses, or None without one.

    Another process asks for it, because one that has asked keeps a context on the GPU.

    Raises:
        subprocess.CalledProcessError: if the GPU does not answer. `stderr` holds the reason.
    """
    if not torch.cuda.is_available():
        return None
    command = [sys.executable, "-c", ASK]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Card(*json.loads(answer.strip().splitlines()[-1]))
