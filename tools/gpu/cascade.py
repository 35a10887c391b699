"""FlashInfer's attention over pages: calls of run(), planned before, each with queries and pages of its own."""

from .timing import rotation

PAGE = 32
WORKSPACE = 256 << 20


def indices(torch, values):
    return torch.tensor(list(values), dtype=torch.int32, device="cuda")


def calls_of(torch, run, rows: int, pages: int, heads: int, kv_heads: int, head_dim: int) -> list:
    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    shape = (pages, 2, PAGE, kv_heads, head_dim)
    count = rotation(torch, 2 * torch.Size(shape).numel())
    sets = [(random(rows, heads, head_dim), random(*shape)) for _ in range(count)]
    return [lambda s=s: run(*s) for s in sets]


def plan_cascade(torch, case: tuple, rows: int, heads: tuple, backend: str):
    """The wrapper and its number of pages: the last rows of s own tokens of b sequences ask, behind p shared tokens."""
    from flashinfer import MultiLevelCascadeAttentionWrapper

    (b, p, s), prefix, own = case, case[1] // PAGE, -(-case[2] // PAGE)
    wrapper = MultiLevelCascadeAttentionWrapper(2, torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda"), "NHD")
    for level in wrapper._batch_prefill_wrappers:  # it has no argument for it; by itself it takes fa3 on sm_90
        level._backend = backend
    pages = prefix + b * own
    wrapper.plan([indices(torch, (0, b * rows)), indices(torch, range(0, b * rows + 1, rows))],
                 [indices(torch, (0, prefix)), indices(torch, range(0, b * own + 1, own))],
                 [indices(torch, range(prefix)), indices(torch, range(prefix, pages))],
                 [indices(torch, (PAGE,)), indices(torch, [s - (own - 1) * PAGE] * b)],
                 *heads, PAGE, causal=rows > 1, q_data_type=torch.bfloat16)
    return wrapper, pages


def cascade_calls(torch, case: tuple, rows: int, heads: tuple, backend: str) -> list:
    wrapper, pages = plan_cascade(torch, case, rows, heads, backend)
    return calls_of(torch, wrapper.run, case[0] * rows, pages, *heads)


def unshared_calls(torch, case: tuple, heads: tuple) -> list:
    """One row of each of b sequences, which have all p + s tokens as pages of their own."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    b, tokens = case[0], case[1] + case[2]
    each = -(-tokens // PAGE)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda"), "NHD",
                                                 use_tensor_cores=True, backend="fa2")
    wrapper.plan(indices(torch, range(0, b * each + 1, each)), indices(torch, range(b * each)),
                 indices(torch, [tokens - (each - 1) * PAGE] * b), *heads, PAGE, q_data_type=torch.bfloat16)
    return calls_of(torch, wrapper.run, b, b * each, *heads)


def largest_error(torch, case: tuple, rows: int, heads: tuple, backend: str) -> float:
    """The cascade against plain attention in fp32 for the last sequence."""
    (b, p, s), (query_heads, kv_heads, head_dim) = case, heads
    wrapper, pages = plan_cascade(torch, case, rows, heads, backend)
    q = torch.randn(b * rows, query_heads, head_dim, device="cuda", dtype=torch.bfloat16)
    pool = torch.randn(pages, 2, PAGE, kv_heads, head_dim, device="cuda", dtype=torch.bfloat16)
    got = wrapper.run(q, pool)[-rows:].float()
    seen = torch.cat([pool[:p // PAGE], pool[-(-(-s // PAGE)):]]).float()
    k, v = (seen[:, i].flatten(0, 1)[:p + s].repeat_interleave(query_heads // kv_heads, 1) for i in (0, 1))
    scores = torch.einsum("rhd,khd->hrk", q[-rows:].float(), k) * head_dim**-0.5
    later = torch.arange(p + s, device="cuda") > torch.arange(p + s - rows, p + s, device="cuda")[:, None]
    want = torch.einsum("hrk,khd->rhd", scores.masked_fill(later, float("-inf")).softmax(-1), v)
    return (got - want).abs().max().item()
