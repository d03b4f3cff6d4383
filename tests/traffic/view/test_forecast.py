"""A prediction is what the run would take."""

from collections.abc import Callable

import numpy as np
import pytest

from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.policy.choice import Request, View
from traffic.policy.registry import policy
from traffic.request import request_table
from traffic.serving.run import serve
from traffic.view.forecast import Forecast


def test_a_prompt_takes_what_its_instance_takes_and_less_with_what_is_cached(
    pools: Callable[..., Deployment],
) -> None:
    deployment = pools(1, 1)
    forecast = Forecast(deployment.prefill, deployment.decode)
    whole = deployment.prefill.step_time.prefill_ps(4000)
    assert forecast.prefill_ps(4000) == forecast.prefill_ps(4000, 0) == whole
    times = [forecast.prefill_ps(4000, cached) for cached in (0, 1000, 2000, 3000, 4000)]
    assert times == sorted(times, reverse=True)
    assert times[-1] == forecast.prefill_ps(4000, 3999) > 0


def test_a_step_grows_with_sequences_and_with_tokens(pools: Callable[..., Deployment]) -> None:
    deployment = pools(1, 1)
    forecast = Forecast(deployment.prefill, deployment.decode)
    one = forecast.step_ps(1, 1000)
    assert one == deployment.decode.step_time.steps_ps(1, 1000, deployment.decode.kv_bytes(1000), 1)
    assert forecast.step_ps(1, 9000) > one
    assert forecast.step_ps(200, 9000) >= forecast.step_ps(1, 9000)


def test_a_policy_of_a_run_sees_times_and_the_wait_that_they_make(
    pools: Callable[..., Deployment],
    wire: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, int]] = []
    deployment = pools(1, 1)
    hops = np.full((1, 1), 4, np.int32)
    chosen = policy("random", hops)
    inner = chosen.prefill

    def prefill(request: Request, view: View) -> int:
        assert view.time is not None
        seen.append((int(view.prefill_wait_ps[0]), view.time.prefill_ps(request.input_tokens)))
        return inner(request, view)

    monkeypatch.setattr(chosen, "prefill", prefill)
    requests = request_table(arrival_ps=[0, 0], input_tokens=[800, 700], output_tokens=[1, 1])
    outcome = serve(requests, deployment, chosen, wire(), hops=hops)
    assert seen[0][0] == 0
    assert seen[1][0] == seen[0][1]
    starts = outcome.requests["prefill_start_ps"].tolist()
    assert starts == [0, seen[1][0]]
