"""The prefix caches of a service, put together from its deployment."""

from traffic.cache.lookup import Blocks, block_bytes
from traffic.cache.prompt import Later, PromptCache
from traffic.cache.remote import Remote
from traffic.cache.tally import Tally
from traffic.instance import Deployment
from traffic.record.book import Book


def prompt_cache(
    deployment: Deployment,
    blocks: Blocks | None,
    book: Book,
    tally: Tally,
    *,
    colocated: bool,
    seed: int,
    delay_ps: int,
    later: Later,
) -> PromptCache | None:
    """The caches of the prefill instances, or of all where they are ``colocated``.

    None where the deployment has none, or the requests carry no blocks.
    """
    rules, prefill = deployment.cache, deployment.prefill
    if rules is None or blocks is None:
        return None
    pools = [prefill, deployment.decode] if colocated else [prefill]
    size = block_bytes(prefill, blocks.block_tokens)
    remote = None
    if rules.pool is not None:
        ranks = [pool.groups(i) for pool in pools for i in range(len(pool.instances))]
        remote = Remote(rules, prefill.model, ranks, deployment.handoff, size, book, seed=seed)
    return PromptCache(
        rules,
        [pool.time_of(i) for pool in pools for i in range(len(pool.instances))],
        blocks,
        tally,
        size=size,
        layers=prefill.model.layers,
        remote=remote,
        delay_ps=delay_ps,
        later=later,
    )
