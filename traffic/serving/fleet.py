"""The batches of a pool: one an instance, with the memory and the times of its GPUs."""

from collections.abc import Sequence

from traffic.instance import Pool
from traffic.serving.batch import Batch
from traffic.serving.mode import Serving


def batch_of(pool: Pool, instance: int, rules: Serving, priority: Sequence[int] | None) -> Batch:
    """An empty batch for an instance of a pool, with its memory; ``priority`` of every request."""
    return Batch(
        pool.model,
        pool.time_of(instance),
        pool.max_batch,
        pool.kv_dtype,
        capacity_bytes=pool.kv_capacity_bytes,
        rules=rules,
        priority=priority,
    )


def batches(pool: Pool, rules: Serving, priority: Sequence[int] | None) -> list[Batch]:
    """One for each instance."""
    return [batch_of(pool, number, rules, priority) for number in range(len(pool.instances))]
