"""Functions of several results, as a textbook or a gradient writes them."""

import tang_verified as tv


def softmax_parts(s):
    """exp(s - m), its sum and the log-sum-exp, along the last axis."""
    xp = s.__array_namespace__()
    m = s.max(axis=-1, keepdims=True)
    e = xp.exp(s - m)
    total = e.sum(axis=-1, keepdims=True)
    return e, total, (m + xp.log(total))[..., 0]


def below(q, k):
    """Keys not after the query, the last query level with the last key."""
    xp = q.__array_namespace__()
    n, m = q.shape[-2], k.shape[-2]
    return xp.arange(m)[None, :] <= (xp.arange(n) + (m - n))[:, None]


def attention(q: tv.spec("h n 64"), k: tv.spec("h m>=1 64"), v: tv.spec("h m>=1 64")):
    e, total, lse = softmax_parts(q @ k.mT / 8.0)
    return e / total @ v, lse


def attention_of_any_width(q: tv.spec("n d>=1"), k: tv.spec("m>=1 d>=1"), v: tv.spec("m>=1 e")):
    e, total, lse = softmax_parts(q @ k.T / q.shape[-1] ** 0.5)
    return e / total @ v, lse


def causal(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64")):
    s = q.__array_namespace__().where(below(q, k), q @ k.mT / 8.0, -q.__array_namespace__().inf)
    e, total, lse = softmax_parts(s)
    return e / total @ v, lse


def two_values(q: tv.spec("n 16"), k: tv.spec("m>=1 16"), v: tv.spec("m>=1 16"), w: tv.spec("m>=1 32")):
    e, total, _ = softmax_parts(q @ k.T / 4.0)
    return e / total @ v, e / total @ w


def gradients(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64"), do: tv.spec("h n 64"), lse: tv.spec("h n"), d: tv.spec("h n")):  # fmt: skip
    """Of attention, for q, k and v."""
    p = q.__array_namespace__().exp(q @ k.mT / 8.0 - lse[:, :, None])
    ds = p * (do @ v.mT - d[:, :, None])
    return ds @ k, ds.mT @ q, p.mT @ do


def gradients_of_keys(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64"), do: tv.spec("h n 64"), lse: tv.spec("h n"), d: tv.spec("h n")):  # fmt: skip
    return gradients(q, k, v, do, lse, d)[1:]


def gradients_of_narrow_values(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 32"), do: tv.spec("n 32"), lse: tv.spec("n"), d: tv.spec("n")):  # fmt: skip
    p = q.__array_namespace__().exp(q @ k.T / 8.0 - lse[:, None])
    ds = p * (do @ v.T - d[:, None])
    return ds.T @ q, p.T @ do


def causal_gradients(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64"), do: tv.spec("h n 64"), lse: tv.spec("h n"), d: tv.spec("h n")):  # fmt: skip
    xp = q.__array_namespace__()
    p = xp.where(below(q, k), xp.exp(q @ k.mT / 8.0 - lse[:, :, None]), 0.0)
    ds = p * (do @ v.mT - d[:, :, None])
    return ds.mT @ q, p.mT @ do


def all_causal_gradients(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64"), do: tv.spec("h n 64"), lse: tv.spec("h n"), d: tv.spec("h n")):  # fmt: skip
    xp = q.__array_namespace__()
    p = xp.where(below(q, k), xp.exp(q @ k.mT / 8.0 - lse[:, :, None]), 0.0)
    ds = p * (do @ v.mT - d[:, :, None])
    return ds @ k, ds.mT @ q, p.mT @ do


def all_gradients_of_a_matrix(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 32"), do: tv.spec("n 32"), lse: tv.spec("n"), d: tv.spec("n")):  # fmt: skip
    """No axis in front: parts of the keys run in parallel."""
    p = q.__array_namespace__().exp(q @ k.T / 8.0 - lse[:, None])
    ds = p * (do @ v.T - d[:, None])
    return ds @ k, ds.T @ q, p.T @ do


def gradients_of_many_heads(q: tv.spec("128 n 64"), k: tv.spec("128 m 64"), v: tv.spec("128 m 64"), do: tv.spec("128 n 64"), lse: tv.spec("128 n"), d: tv.spec("128 n")):  # fmt: skip
    return gradients(q, k, v, do, lse, d)


ACROSS = (gradients, all_causal_gradients, all_gradients_of_a_matrix)


def statistics(x: tv.spec("n m>=1")):
    return x.mean(axis=-1), x.var(axis=-1)


def softmax_and_log_sum(x: tv.spec("n m>=1")):
    e, total, lse = softmax_parts(x)
    return lse, e / total


def norm_and_statistics(x: tv.spec("n m>=1"), w: tv.spec("m>=1")):
    xp = x.__array_namespace__()
    mean, scale = x.mean(axis=-1, keepdims=True), 1.0 / xp.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return (x - mean) * scale * w, mean[:, 0], scale[:, 0]


def two_of_a_product(x: tv.spec("n 160"), w: tv.spec("160 m")):
    xp = x.__array_namespace__()
    return xp.maximum(x @ w, 0.0), (x @ w) ** 2


def sum_and_largest(x: tv.spec("n m>=1")):
    return x.sum(axis=-1), x.max(axis=-1)


def maps(x: tv.spec("n m"), y: tv.spec("n m")):
    return x * y, x.__array_namespace__().exp(x)


def projections(x: tv.spec("n 64"), a: tv.spec("64 64"), b: tv.spec("64 64")):
    """What they share is read once a tile; the products are the work."""
    return x @ a, x @ b


def one_of_the_other(x: tv.spec("n m>=1")):
    total = x.sum(axis=-1)
    return total, x / total[:, None]


def rows_and_columns(x: tv.spec("n m>=1")):
    return x.sum(axis=-1), x.sum(axis=0)


def other_extents(x: tv.spec("n m>=1"), y: tv.spec("k m>=1")):
    return x.max(axis=-1), y.max(axis=-1)


def in_between(x: tv.spec("n m>=1"), a: tv.spec("n n")):
    """The second sum reads a product, which reads neither."""
    b = a @ x
    return (x * x).sum(axis=-1), b, (x * x).sum(axis=-1) + b.max(axis=-1)


TOGETHER = (
    attention, attention_of_any_width, causal, two_values, gradients_of_keys, gradients_of_narrow_values, causal_gradients,
    statistics, softmax_and_log_sum, norm_and_statistics, sum_and_largest,
    two_of_a_product, maps, one_of_the_other,
)  # fmt: skip
APART = (projections, rows_and_columns, other_extents)
