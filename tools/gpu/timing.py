"""Device time of calls of PyTorch: medians over replays of a CUDA graph, so that launching does not count."""

import statistics
import time

MOST_SECONDS = 0.5  # of one figure
COLD = 4            # buffers that take turns hold so many times the last cache


def rotation(torch, bytes_each: int) -> int:
    """How many buffers must take turns for each call to find its own in memory, not in the last cache."""
    cache = max(torch.cuda.get_device_properties(0).L2_cache_size, 1)
    return max(1, min(64, -(-COLD * cache // bytes_each)))


def milliseconds(torch, work) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def microseconds(torch, calls: list) -> dict:
    """{"us": median time of a call, "graph": whether launching is left out}; the calls take turns."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # warm-up, as graphs demand it: plans, workspaces, compilation
        for call in (*calls[:3], calls[0]):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    one = milliseconds(torch, calls[0])
    repeats = len(calls) * max(1, round(min(20, 20 / max(one, 1e-3)) / len(calls)))  # about 20 ms a replay
    row = [calls[i % len(calls)] for i in range(repeats)]
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in row:
                call()
        replay, captured = graph.replay, True
    except Exception:  # something in it waits or allocates: with launching, then
        torch.cuda.synchronize()

        def replay():
            for call in row:
                call()
        captured = False
    times, end = [], time.monotonic() + MOST_SECONDS
    replay()
    torch.cuda.synchronize()
    while len(times) < 5 or (len(times) < 50 and time.monotonic() < end):
        times.append(milliseconds(torch, replay) * 1000 / repeats)
    return {"us": round(statistics.median(times), 3), "graph": captured}
