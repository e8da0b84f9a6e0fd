import json

import pytest

from benchmarks.audit import Timing, compare, main, read_timings


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def own(number, ttft_s, tpot_s):
    return {"request_id": f"r-{number}", "ttft_s": ttft_s, "tpot_s": tpot_s, "outcome": "finished"}


def aiperf(number, ttft_ms, tpot_ms, unit="ms"):
    return {
        "metadata": {"x_request_id": f"r-{number}"},
        "metrics": {
            "time_to_first_token": {"value": ttft_ms, "unit": unit},
            "inter_token_latency": {"value": tpot_ms, "unit": unit},
        },
    }


def test_aiperf_and_our_own_records_read_alike(tmp_path):
    ours = read_timings(write(tmp_path / "a", [own(1, 0.25, 0.0125)]))
    theirs = read_timings(write(tmp_path / "b", [aiperf(1, 250.0, 12.5)]))

    assert ours == theirs == [Timing("r-1", 0.25, 0.0125)]


def test_an_unknown_unit_is_refused_instead_of_misread(tmp_path):
    with pytest.raises(ValueError, match="expected ms"):
        read_timings(write(tmp_path / "a", [aiperf(1, 0.25, 0.0125, unit="sec")]))


def test_requests_are_joined_by_id_whatever_their_order():
    client = [Timing(f"r-{n}", 0.1 * n, None) for n in range(1, 6)]

    joined, missing, [p50, p95] = compare(client, reversed(client[:-1]))

    assert joined == 4
    assert missing == ["r-5"]
    assert p50.client_s == p50.router_s == pytest.approx(0.25)
    assert p95.agrees


def test_agreement_means_within_five_percent_or_ten_milliseconds(tmp_path, capsys):
    client = write(tmp_path / "client", [own(n, 1.0, 0.02) for n in range(9)])
    near = write(tmp_path / "near", [own(n, 1.049, 0.0299) for n in range(9)])
    far = write(tmp_path / "far", [own(n, 1.051, 0.02) for n in range(9)])

    assert main(["--client", str(client), "--router", str(near)]) == 0
    assert main(["--client", str(client), "--router", str(far)]) == 1
    assert "TTFT p50 of 9: client 1000.00 ms, router 1051.00 ms" in capsys.readouterr().out


def test_nothing_to_compare_is_no_agreement(tmp_path):
    empty = write(tmp_path / "empty", [])

    assert main(["--client", str(empty), "--router", str(empty)]) == 1
