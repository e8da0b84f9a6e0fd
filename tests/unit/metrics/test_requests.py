import base64
import json

import pytest

from tandem_operator.metrics.requests import SeenRequest, parse_page

PAGE = {
    "schema": 1,
    "router": "tiny-router-abc",
    "now_s": 1100.2,
    "complete_since_s": 1000.5,
    "chunk_bytes": 1024,
    "columns": ["arrived_s", "prompt_tokens", "cached_tokens", "output_tokens", "whole", "marks"],
    "rows": [[1050.25, 411, 96, 60, True, base64.b64encode(b"onemark!twomarks").decode()]],
    "inside": [[1099.5, 20, None, 0, False, ""]],
    "next": 7,
    "more": "of a later release",
}


def parse(**changes):
    return parse_page(json.dumps({**PAGE, **changes}).encode())


def test_a_page_is_read_with_what_is_still_inside():
    page = parse()

    assert (page.router, page.now_s, page.complete_since_s) == ("tiny-router-abc", 1100.2, 1000.5)
    assert page.next == 7
    assert page.requests == (
        SeenRequest(1050.25, 411, 96, 60, True, (b"onemark!", b"twomarks")),
        SeenRequest(1099.5, 20, None, 0, False, ()),
    )


def test_rows_have_the_tenants_that_a_router_tells():
    page = parse(row_tenants=["acme"], inside_tenants=["other"])

    assert [request.tenant for request in page.requests] == ["acme", "other"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"row_tenants": ["a", "b"]}, "row_tenants must have 1 names"),
        ({"inside_tenants": [7]}, "inside_tenants.0"),
        ({"row_tenants": ["a" * 64]}, "row_tenants.0"),
        ({"schema": 2}, "schema"),
        ({"columns": ["arrived_s"]}, "columns must be arrived_s, prompt_tokens"),
        ({"rows": [[1050.25, -1, 0, 0, True, ""]]}, "rows.0.1"),
        ({"rows": [[1050.25, 1, 0, 0, True]]}, "rows.0"),
        ({"rows": [[1050.25, 1, 0, 0, True, "not base64"]]}, "/requests: "),
        ({"rows": [[1.0, 1, 0, 0, True, ""]] * 20_000}, "too many parts"),
        ({"next": "soon"}, "next"),
        ({"now_s": None}, "now_s"),
    ],
)
def test_a_page_that_is_not_right_is_refused_with_what_is_wrong(changes, said):
    with pytest.raises(ValueError, match=said):
        parse(**changes)
