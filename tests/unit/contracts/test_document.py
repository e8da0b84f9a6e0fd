"""The tables of the contracts' document."""

import pytest

from tandem_contracts.document import filled


def test_a_table_is_made_anew_and_the_text_around_it_stays():
    text = "before\n<!-- made from logs -->\n| old |\n<!-- end -->\nafter\n"

    made = filled(text)

    assert made.startswith("before\n<!-- made from logs -->\n| field |")
    assert made.endswith("<!-- end -->\nafter\n")
    assert "| old |" not in made
    assert filled(made) == made


def test_tables_show_the_parts_of_a_document_and_their_defaults():
    made = filled("<!-- made from router_settings -->\n<!-- end -->\n")

    assert "| `decode` | `PaceSettings` or null, optional |" in made
    assert "`PaceSettings`: The learned speed of one decode pod." in made
    assert "| `attainment` | number, optional | Default: 0.99. |" in made


def test_a_constant_has_its_value_and_its_text():
    made = filled("<!-- made from names -->\n<!-- end -->\n")

    assert "| `CONTROL_PORT` | `8001` | Port of the launcher in an engine pod. |" in made


def test_a_table_that_nothing_makes_is_an_error():
    with pytest.raises(KeyError):
        filled("<!-- made from nothing -->\n<!-- end -->\n")
