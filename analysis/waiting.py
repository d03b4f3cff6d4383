"""Whether fabric or policy decide how long users wait, where the hand-off alone does not say so.

The verdict compares hand-offs. A policy that finds cached prompts, or a shorter line before a
prefill instance, moves the time to first token and hardly the hand-off: "does not matter" would
then be read for more than it says.
"""

from collections.abc import Sequence

from analysis.comparison import compare_fabrics, compare_policies, first_tokens
from analysis.condition import conditions
from analysis.record import StudyManifest
from analysis.summary import Sample
from analysis.wording import count, duration, duration_span, percent

NOTICED = 0.1
"""A difference within this share of the TTFT objective is not told; a convention of ours."""


def waiting(parts: Sequence[Sample], study: StudyManifest) -> list[str]:
    """A sentence for fabrics and one for policies whose mean TTFT is found to differ.

    Told is the pair with the largest difference found, where that exceeds `NOTICED` of the TTFT
    objective, or without one of the longer mean.
    """
    lines = []
    for topic, place, compared in (
        ("Topology", "on", compare_fabrics(parts, first_tokens, conditions(study))),
        ("Policy", "with", compare_policies(parts, first_tokens)),
    ):
        widest = compared.widest
        if widest is None or not widest.found:
            continue
        bound = (
            NOTICED * study.ttft_ps
            if study.ttft_ps is not None
            else NOTICED * widest.ps.value / max(widest.share, 1e-9)
        )
        if widest.ps.value > bound:
            lines.append(
                f"{topic} matters to users' waiting: the mean TTFT {place} {widest.fast} is "
                f"{duration(widest.ps.value)} ({percent(widest.share)}) shorter than {place} "
                f"{widest.slow} ({duration_span(widest.ps)}, "
                f"{count(widest.seeds, 'common seed')}), of requests that finished."
            )
    return lines
