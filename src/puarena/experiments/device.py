"""Where to train."""

from __future__ import annotations

from puarena.errors import UserError


def choose_device(device: str = "auto", elsewhere: bool = False) -> str:
    """``auto`` is the GPU where there is one; a GPU that is not there is a clear error, unless others have it."""
    import torch

    if device not in {"auto", "cpu", "cuda"}:
        raise UserError(f"the device is '{device}'; choose one of: auto, cpu, cuda")
    available = torch.cuda.is_available()
    if device == "cuda" and elsewhere:
        return device
    if device == "cuda" and not available:
        raise UserError("there is no CUDA device on this machine; use --device cpu")
    return "cuda" if device != "cpu" and available else "cpu"
