"""A data sheet and a model's shape bound what engines can cost; profiles that ship refine it."""

from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.priors.__main__ import errors, guesses, told_by
from benchmarks.priors.fit import fitted
from benchmarks.priors.models import MODELS
from tandem_operator.cli.input.profiles import profile_of, shipped
from tandem_operator.core.learn.priors import prior_of
from tandem_operator.core.learn.roofline import data_sheet, roofline
from tandem_operator.core.learn.shipped_profiles import SHIPPED
from tandem_operator.core.observation import Hardware, StartUp

SMALL, LARGE = (MODELS[name].shape(quantization=None) for name in ("llama-3.1-8b", "llama-3.1-70b"))
L4, H100 = Hardware("NVIDIA L4"), Hardware("NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200-SXM"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10G", "A10G"),
        ("Tesla T4", "T4"),
    ],
)
def test_a_device_is_known_by_the_name_its_driver_gives_it(device: str, name: str) -> None:
    sheet = data_sheet(device)

    assert sheet is not None
    assert sheet.name == name


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        "",
        "NVIDIA GeForce RTX 2060",
        "H1000",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA L4 shared",
    ],
)
def test_a_device_without_a_data_sheet_tells_nothing(device: str) -> None:
    assert roofline(SMALL, Hardware(device)) is None


def test_a_larger_model_and_a_slower_device_cost_more() -> None:
    small, large, slow = roofline(SMALL, H100), roofline(LARGE, H100), roofline(SMALL, L4)

    assert small is not None
    assert large is not None
    assert slow is not None
    for other in (large, slow):
        assert all(a < b for a, b in zip(small.service, other.service, strict=True))
        assert all(a < b for a, b in zip(small.step, other.step, strict=True))


def test_a_token_in_the_cache_weighs_less_beside_more_weights() -> None:
    shares = []
    for shape in (SMALL, LARGE):
        prior = roofline(shape, H100)
        assert prior is not None
        shares.append(prior.step[2] / prior.step[0])

    assert shares[1] < 0.4 * shares[0]


def test_more_devices_are_faster_but_not_by_as_much() -> None:
    one, four = roofline(LARGE, H100), roofline(LARGE, replace(H100, devices=4))

    assert one is not None
    assert four is not None
    assert one.step[0] / 4 < four.step[0] < one.step[0]


def test_a_shipped_profile_of_the_same_shape_and_hardware_goes_before_the_data_sheet() -> None:
    known = next(each for each in SHIPPED if each.name == "h100-llama-3.1-8b")
    # A fine-tune has the shape of what it was made from, give or take its added words.
    shape = replace(SMALL, weight_bytes=1.003 * SMALL.weight_bytes)

    assert prior_of(StartUp(shape=shape, hardware=H100)) == known.prior
    assert prior_of(StartUp(shape=shape, hardware=replace(H100, devices=2))) != known.prior
    assert prior_of(StartUp(shape=SMALL, hardware=L4)) == roofline(SMALL, L4)


@pytest.mark.parametrize(
    "start_up", [StartUp(), StartUp(shape=SMALL), StartUp(shape=SMALL, hardware=Hardware("cpu"))]
)
def test_without_shape_or_known_hardware_there_is_no_prior(start_up: StartUp) -> None:
    assert prior_of(start_up) is None


@pytest.mark.parametrize("name", shipped())
def test_what_ships_of_a_profile_is_what_fits_its_table(name: str) -> None:
    known, again = (
        next(each for each in found if each.name == name) for found in (SHIPPED, (fitted(name),))
    )

    assert (known.device, known.devices) == (again.device, again.devices)
    assert known.prior.service == pytest.approx(again.prior.service, rel=1e-3)
    assert known.prior.step == pytest.approx(again.prior.step, rel=1e-3)
    assert known.shape.weight_bytes == pytest.approx(again.shape.weight_bytes, rel=1e-3)
    assert known.shape.kv_bytes_per_token == again.shape.kv_bytes_per_token
    assert known.shape.kv_bytes_per_token == profile_of(name).kv_bytes_per_token


def test_priors_bring_first_guesses_nearer_to_what_engines_then_cost() -> None:
    """Full caches and long prompts: what an engine cannot measure of itself quickly."""
    alone, with_sheet, with_profile = [], [], []
    for known in map(fitted, shipped()):
        models = guesses(told_by(known), known.prior)
        found = [errors(profile_of(known.name), each) for each in models]
        for each, (prefill, decode) in zip((alone, with_sheet, with_profile), found, strict=False):
            each.append((abs(prefill), abs(decode)))

    for role in (0, 1):
        before, sheet, profile = (
            fmean(pair[role] for pair in each) for each in (alone, with_sheet, with_profile)
        )
        assert sheet < 0.5 * before
        assert profile < 0.5 * before
