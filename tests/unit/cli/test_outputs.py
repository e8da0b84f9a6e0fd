"""Results never go over what a command reads, and two results never into one place."""

import os
from pathlib import Path

import pytest

from tests.unit.cli.files import POOL, PROFILE, SHORT, sentence, tandem, write
from tests.unit.cli.saved import pool as saved_pool
from tests.unit.cli.saved import saved

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_an_output_never_overwrites_the_manifest(pool, command, option):
    said = sentence(tandem(command, "-f", pool, *PROFILE, *SHORT, option, pool))

    assert f"{option} {pool} would overwrite what -f reads; name another file, such as" in said
    assert Path(pool).read_text() == POOL


def test_an_output_never_overwrites_the_trace(tmp_path, pool):
    trace = write(tmp_path, "t.csv", AZURE)
    words = ("--trace", trace, "--html", f"{tmp_path}/./t.csv")

    said = sentence(tandem("simulate", "-f", pool, *PROFILE, *words))

    assert "would overwrite what --trace reads" in said
    assert Path(trace).read_text() == AZURE


def test_an_output_never_overwrites_a_profile_of_ones_own(tmp_path, pool):
    profile = write(tmp_path, "own.json", "{}")
    words = ("--profile", f"{profile}#h200/llama/tp1", *SHORT, "--json", profile)

    assert "what --profile reads" in sentence(tandem("simulate", "-f", pool, *words))
    assert Path(profile).read_text() == "{}"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_to_an_input_is_that_input(tmp_path, pool, link):
    link(pool, tmp_path / "link.yaml")

    said = sentence(
        tandem("simulate", "-f", pool, *PROFILE, *SHORT, "--json", str(tmp_path / "link.yaml"))
    )

    assert "would overwrite what -f reads" in said


@pytest.mark.parametrize("which", ["OLD", "NEW"])
@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_diff_overwrites_neither_manifest(tmp_path, pool, option, which):
    new = write(tmp_path, "new.yaml", POOL)
    target = pool if which == "OLD" else new

    said = sentence(tandem("diff", pool, new, *PROFILE, *SHORT, "--seeds", "1", option, target))

    assert f"would overwrite what {which} reads" in said
    assert Path(target).read_text() == POOL


def test_an_explanation_does_not_overwrite_what_was_saved(tmp_path):
    path = write(tmp_path, "saved.yaml", saved(saved_pool()))

    assert "what --file reads" in sentence(tandem("explain", "--file", path, "--json", path))


def test_two_outputs_cannot_share_a_file(tmp_path, pool):
    path = str(tmp_path / "x")

    said = sentence(
        tandem("simulate", "-f", pool, *PROFILE, *SHORT, "--json", path, "--html", path)
    )

    assert f"--json and --html both name {path}; name two files" in said
    assert not os.path.exists(path)


def test_a_device_may_take_two_outputs(pool):
    words = ("--json", "/dev/null", "--html", "/dev/null")

    assert tandem("simulate", "-f", pool, *PROFILE, *SHORT, *words).exit_code == 0


def test_page_and_json_cannot_share_the_screen(pool):
    said = sentence(tandem("plan", "-f", pool, *PROFILE, *SHORT, "--json", "-", "--html", "-"))

    assert "--json and --html cannot both go to standard output" in said


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_a_page_on_standard_output_is_nothing_but_the_page(pool, command):
    result = tandem(command, "-f", pool, *PROFILE, *SHORT, "--span", "20s", "--html", "-")

    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.rstrip().endswith("</html>")
    assert "TTFT p95" in result.stderr


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_an_output_without_a_name_is_refused(pool, option):
    said = sentence(tandem("simulate", "-f", pool, *PROFILE, *SHORT, option, ""))

    assert f"{option} must name a file, such as " in said
