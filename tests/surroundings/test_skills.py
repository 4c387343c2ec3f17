"""A skill's file is read as the standard says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_ctx.surroundings.skills import BadSkillError, parse_skill, split_front_matter

HEAD = "---\nname: plot\ndescription: Draw a chart\n---\n"


def test_name_trigger_and_text() -> None:
    """Front matter gives name and description; the text is what is below it."""
    skill = parse_skill(f"{HEAD}\n# Steps\n1. Look\n", "folder", "plot/SKILL.md", "/p")

    assert (skill.name, skill.description, skill.text) == (
        "plot",
        "Draw a chart",
        "# Steps\n1. Look",
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("description: plain", "plain"),
        ("description: plain # a comment", "plain"),
        ("description: a#b: c", "a#b: c"),
        ("description: 'it''s'", "it's"),
        ('description: "a \\"b\\" \\u00e9"', 'a "b" é'),
        ("description: >\n  one\n  two\n\n  three", "one two\nthree"),
        ("description: >-\n  one\n  two", "one two"),
        ("description: |\n  one\n    two", "one\n  two"),
        ("description: |+  # kept\n  one\n", "one"),
        ("description: one\n  two", "one two"),
    ],
)
def test_the_forms_of_a_text(written: str, read: str) -> None:
    """Plain, quoted, folded, literal and continued values are read as YAML reads them."""
    fields, _ = split_front_matter(f"---\n{written}\nname: x\n---\nbody")

    assert (fields["description"], fields["name"]) == (read, "x")


def test_nested_values_are_passed_over() -> None:
    """Maps and lists of the front matter change nothing of what stands beside them."""
    text = "---\nmetadata:\n  name: inner\nallowed-tools:\n- a\nname: x\n---\nbody"

    fields, body = split_front_matter(text)

    assert (fields["name"], body) == ("x", "body")


def test_without_a_name_it_is_called_as_its_folder() -> None:
    """The folder's name counts where the front matter has none."""
    assert parse_skill("---\ndescription: d\n---\nb", "my-skill", "", "").name == "my-skill"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# No front matter", "does not begin"),
        ("---\nname: x\ndescription: d\n", "does not end"),
        ("---\nname: x\n---\nb", "no description"),
        ("---\nname: x\ndescription:\n---\nb", "no description"),
        ("---\nname: X Y\ndescription: d\n---\nb", "its name"),
        ("---\nname: ../up\ndescription: d\n---\nb", "its name"),
        ('---\nname: "a\\nb"\ndescription: d\n---\nb', "its name"),
        (f"---\nname: {'x' * 65}\ndescription: d\n---\nb", "its name"),
        (f"---\nname: x\ndescription: {'d' * 1025}\n---\nb", "longer than"),
        ("---\nname: x\ndescription: d\n---\n\n", "no text"),
        ("", "does not begin"),
    ],
)
def test_what_is_no_skill_says_why(text: str, why: str) -> None:
    """Each fault has its own words."""
    with pytest.raises(BadSkillError, match=why):
        parse_skill(text, "folder", "", "")


def test_a_description_is_one_line() -> None:
    """What is listed for the model never has a second line."""
    skill = parse_skill("---\nname: x\ndescription: |\n  a\n  b\n---\nt", "f", "", "")

    assert skill.description == "a b"


@given(st.text(alphabet="-:|># \n\"'ab\\\t[]", max_size=200))
def test_any_text_is_a_skill_or_says_why(text: str) -> None:
    """Nothing but BadSkillError is raised, whatever stands in the file."""
    for written in (text, f"---\n{text}\n---\nbody"):
        try:
            skill = parse_skill(written, "folder", "", "")
        except BadSkillError:
            continue
        assert skill.name
        assert "\n" not in skill.description
