"""The pools that an operator serves, and the Lease that it holds for them."""

import pytest

from tandem_operator.options import options_from


def test_without_a_namespace_pools_are_listed_everywhere():
    assert options_from([]).places == (None,)
    assert options_from([]).lease_name == "tandem-operator"


def test_each_namespace_is_listed_once_in_a_fixed_order():
    options = options_from(["--namespace=b", "--namespace=a", "--namespace=b"])

    assert options.places == ("a", "b")


def test_the_lease_of_one_namespace_names_it():
    assert options_from(["--namespace=a"]).lease_name == "tandem-operator-a"


def test_the_lease_of_many_namespaces_stays_a_name_that_kubernetes_takes():
    many = [f"--namespace=team-{number:050}" for number in range(20)]

    assert len(options_from(many).lease_name) <= 63
    assert options_from(many).lease_name != options_from(many[1:]).lease_name


def test_the_lease_that_pools_name_is_the_lease_that_is_held():
    words = ["--namespace=b", "--namespace=a", "--leader-elect", "--lease-namespace=ops"]
    options = options_from(words)

    assert options.installation.lease == f"ops/{options.lease_name}"


@pytest.mark.parametrize("short", ["--namespac=x", "--allow-any-pod", "--no-network"])
def test_an_option_is_taken_by_its_whole_name_alone(short, capsys):
    with pytest.raises(SystemExit):
        options_from(["--namespace=a", short])

    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    "variable",
    [
        *("TANDEM_ROUTER_IMAGE", "TANDEM_LAUNCHER_IMAGE"),
        *("TANDEM_ENGINE_CPU_IMAGE", "TANDEM_ENGINE_GPU_IMAGE"),
    ],
)
def test_no_image_is_used_that_neither_pool_nor_operator_names(monkeypatch, variable):
    monkeypatch.delenv(variable, raising=False)
    installation = options_from([]).installation

    field = variable.removeprefix("TANDEM_").lower()
    names = {"engine_cpu_image": "engine_image_cpu", "engine_gpu_image": "engine_image_gpu"}
    assert getattr(installation, names.get(field, field)) == ""
