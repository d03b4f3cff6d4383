"""The waterfall of one hand-off names every step in full, also those too short to be seen."""

import io

from matplotlib.image import imread

from analysis.explain import Step, Story
from analysis.plot.explain import waterfall
from analysis.plot.style import png, svg


def test_a_step_tells_its_length_and_its_whole_place() -> None:
    place = "spine0:2 > leaf1:4, 0 % of what stood at leaf0:5 > spine0:1 was innocent"
    story = Story(
        "fat-tree", "random", 1, 7, (Step("pause", place, 0, 10**9), Step("queue", "a", 10**9, 40))
    )
    axes = waterfall(story).figure.axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[0].split("\n")[0] == "pause, 1 ms"
    assert " ".join(names[0].split("\n")[1:]) == place
    assert names[1] == "queue, 40 ps\na"


def test_no_label_is_cut_at_the_edge_of_the_png() -> None:
    place = "spine0:2 > leaf1:4, 0 % of what stood at leaf0:5 > spine0:1 was innocent"
    plot = waterfall(Story("fat-tree", "random", 1, 7, (Step("pause", place, 0, 10**9),)))
    svg(plot)
    pixels = imread(io.BytesIO(png(plot)), format="png")
    assert pixels[:, 0, :3].min() == 1
