"""What this machine has: free memory, what this process holds of it, how the allocator behaves, how fast it multiplies.

Reads what the operating system tells (`/proc` on Linux, `sysconf` elsewhere) and torch for a GPU. Knows no model.
"""

import ctypes
import os
import resource
import sys
import time
from pathlib import Path

import torch

# glibc keeps what was freed in blocks below 32 MB for itself, in pieces that do not fit the next need. With it a
# process was found to hold 1.5 to 1.6 times what its tensors take; with a fixed threshold, above which memory goes back
# to the system at once, 1.0 times (`python -m fastif.bench.memory`).
KEPT_BY_ALLOCATOR = 1.5
THRESHOLD = "MALLOC_MMAP_THRESHOLD_"


def free_memory(device: torch.device) -> int:
    """Return the bytes that can still be taken: of the GPU, or of the machine's memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def held_memory() -> int:
    """Return the bytes that this process holds now; at its peak, where the system does not tell more."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_memory()


def peak_memory() -> int:
    """Return the most bytes that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def matrix_speed(device: torch.device, dtype: torch.dtype) -> float:
    """Return the multiplications a second of a product of matrices, by a trial."""
    side = 4096 if device.type == "cuda" else 1024
    matrix = torch.ones(side, side, device=device, dtype=dtype)
    for _ in range(2):  # the first has to wake the machine
        start = time.perf_counter()
        float((matrix @ matrix)[0, 0])  # which waits for the device
        seconds = time.perf_counter() - start
    return float(side**3 / seconds)


def give_back() -> None:
    """Ask the C library to hand freed memory back to the system, where it can."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def allocator_share(device: torch.device) -> float:
    """Return how much a process holds for each byte of living tensors."""
    if device.type != "cpu" or sys.platform != "linux" or THRESHOLD in os.environ:
        return 1.0
    return KEPT_BY_ALLOCATOR


def has_threshold(device: torch.device) -> bool:
    """Return whether a fixed threshold of the allocator would lower the peak here, and is not set."""
    return allocator_share(device) > 1
