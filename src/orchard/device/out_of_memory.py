"""Tells MLX's out-of-memory errors from others, and waits until such errors have surfaced."""

import traceback

import mlx.core as mx

_SIGNS = (
    "out of memory",  # CUDA: cudaMallocAsync(&data, size, stream) failed: out of memory
    "insufficient memory",  # Metal: [METAL] Command buffer execution failed: Insufficient Memory
    "kiogpucommandbuffercallbackerroroutofmemory",  # its code, where the message is translated
    "[metal::malloc]",
    "unable to allocate",  # [malloc] Unable to allocate 8 bytes.
    "bad_alloc",
    "alloc_failed",  # cuBLAS and cuDNN: CUBLAS_STATUS_ALLOC_FAILED
)
_MOST_ERRORS = 16  # that MLX keeps at a time: one for each stream and each array that waits


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that an allocation failed, on the device or on the host."""
    if isinstance(error, MemoryError):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in message for sign in _SIGNS)


def surface() -> None:
    """Wait for the device; raise the error of earlier work, which MLX may have kept until now.

    On Metal, work that ran out of memory leaves zeros, and a later call raises its error.
    """
    mx.synchronize()


def forget(error: BaseException) -> None:
    """Let go of what an out-of-memory error and failed work keep alive, and free MLX's cached buffers.

    Raise an error that work in progress leaves, unless it says the same.
    """
    found: BaseException | None = error
    while found is not None:
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__
    for _ in range(_MOST_ERRORS):
        try:
            surface()
            break
        except Exception as late:
            if not is_out_of_memory(late):
                raise
    mx.clear_cache()
