"""The waterfall of one hand-off names every step in full, also those too short to be seen."""

import io

from matplotlib.image import imread

from analysis.charge import LAST, SENDING
from analysis.explain import Step, Story
from analysis.plot.explain import waterfall
from analysis.plot.style import png, svg


def test_a_step_tells_its_length_and_its_whole_place() -> None:
    place = "spine0:2 > leaf1:4, 0 % of what stood at leaf0:5 > spine0:1 was innocent"
    story = Story(
        "fat-tree", "random", 1, 7, (Step("pause", place, 0, 10**9), Step("queue", "a", 10**9, 40))
    )
    drawn = waterfall(story)
    axes = drawn.figure.axes[0]
    assert axes.get_xlabel() == "time since the end of prefill (ms)"
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[0].split("\n")[0] == "pause, 1 ms"
    assert " ".join(names[0].split("\n")[1:]) == place
    assert names[1] == "queue, 40 ps\na"


def test_sums_of_what_alternates_stand_on_a_shaded_ground_and_have_no_moment() -> None:
    steps = (
        Step("orchestration", "", 0, 10**9),
        Step("pacing", "a", 10**9, 2 * 10**9, SENDING),
        Step("queue", "b", 3 * 10**9, 10**9, LAST),
        Step("copies", "", 4 * 10**9, 10**9),
    )
    drawn = waterfall(Story("fat-tree", "random", 1, 7, steps))
    axes = drawn.figure.axes[0]
    (ground,) = [patch for patch in axes.patches if patch.get_height() == 1]  # type: ignore[attr-defined]
    assert (ground.get_x(), ground.get_width()) == (1, 3)  # type: ignore[attr-defined]
    assert "alternate in truth" in axes.get_xlabel()
    when = [row[drawn.columns.index("when")] for row in drawn.rows]
    assert when == ["from 0 s", "while sending", "last packet", "from 4 ms"]


def test_no_label_is_cut_at_the_edge_of_the_png() -> None:
    place = "spine0:2 > leaf1:4, 0 % of what stood at leaf0:5 > spine0:1 was innocent"
    plot = waterfall(Story("fat-tree", "random", 1, 7, (Step("pause", place, 0, 10**9),)))
    svg(plot)
    pixels = imread(io.BytesIO(png(plot)), format="png")
    assert pixels[:, 0, :3].min() == 1
