"""Labels of strangers inside Markdown stay text."""

from hypothesis import given
from hypothesis import strategies as st

from analysis.markdown import escaped, folded, table


def test_links_mentions_tags_and_cells_are_not_markup() -> None:
    told = escaped("[x](javascript:y) <b> @team #1 a|b `c` *d* _e_ ~f~ &lt;")
    assert told == (r"\[x\](javascript:y) \<b\> \@team \#1 a\|b \`c\` \*d\* \_e\_ \~f\~ \&lt;")


@given(st.text())
def test_a_table_has_one_line_a_row_whatever_stands_in_it(text: str) -> None:
    lines = table(("a", "b"), [(text, "1")]).split("\n")
    assert len(lines) == 3
    assert lines[2].replace("\\|", "").count("|") >= 3
    assert all(each.isprintable() for each in lines)


@given(st.text())
def test_a_folded_title_is_one_line_of_text(text: str) -> None:
    head, *_, tail = folded(text, "- a").split("\n")
    assert head.startswith("<details><summary>")
    assert head.endswith("</summary>")
    assert "<" not in head.removeprefix("<details><summary>").removesuffix("</summary>")
    assert tail == "</details>"


def test_an_underscore_in_a_folded_title_is_not_escaped_twice() -> None:
    assert folded("against least_loaded", "x").startswith(
        "<details><summary>against least_loaded</summary>\n\nx\n\n"
    )
