"""Which messages say that memory ran out."""

import pytest

from orchard.core.errors import reports_out_of_memory


@pytest.mark.parametrize(
    "said",
    [
        "terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: "
        "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "RuntimeError: [malloc] Unable to allocate 68719476736 bytes.",
        "RuntimeError: [metal::malloc] Attempting to allocate 51539607552 bytes which is greater than the maximum "
        "allowed buffer size of 30150672384 bytes.",
        "RuntimeError: cudaMallocAsync(&data, size, stream) failed: out of memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "MemoryError",
    ],
)
def test_last_words_tell_that_memory_ran_out(said: str) -> None:
    assert reports_out_of_memory(said)


@pytest.mark.parametrize("said", ["", "ValueError: [matmul] Last dimension of first input", "KeyError: 'memory'"])
def test_last_words_tell_of_something_else(said: str) -> None:
    assert not reports_out_of_memory(said)
