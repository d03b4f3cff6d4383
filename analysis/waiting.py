"""Whether fabric or policy decide how long users wait, where the hand-off alone does not say so.

The verdict compares hand-offs. A policy that finds cached prompts, or a shorter line before a
prefill instance, moves the time to first token and hardly the hand-off: "does not matter" would
then be read for more than it says.
"""

from collections.abc import Sequence

from analysis.comparison import compare_fabrics, compare_policies, first_tokens
from analysis.factor import factors, topic
from analysis.record import StudyManifest
from analysis.summary import Sample
from analysis.wording import count, duration, duration_span, percent

NOTICED = 0.1
"""A difference within this share of the TTFT objective is not told; a convention of ours."""


def waiting(parts: Sequence[Sample], study: StudyManifest) -> list[str]:
    """A sentence for each key that is compared whose values are found to differ in mean TTFT.

    Told is the pair with the largest difference found, where that exceeds `NOTICED` of the TTFT
    objective, or without one of the longer mean.
    """
    lines = []
    facts = [cell.manifest.facts for part in parts for cell in part.cells]
    asked = [
        (topic(one, facts), one.place, compare_fabrics(parts, first_tokens, one))
        for one in factors([part.fabric for part in parts], study)
    ]
    for name, place, compared in (
        *asked,
        ("Policy", "with", compare_policies(parts, first_tokens)),
    ):
        widest = compared.widest
        if widest is None or not widest.found:
            continue
        share, of = widest.share, ""
        if study.ttft_ps is not None:
            share, of = widest.ps.value / study.ttft_ps, " of the TTFT objective"
        if share > NOTICED:
            lines.append(
                f"{name} matters to users' waiting: the mean TTFT {place} {widest.fast} is "
                f"{duration(widest.ps.value)} ({percent(share)}{of}) shorter than {place} "
                f"{widest.slow} ({duration_span(widest.ps)}, "
                f"{count(widest.seeds, 'common seed')}), of requests that finished."
            )
    return lines
