import pytest

from tandem_operator.kube.field_paths import without

BODY = {
    "metadata": {
        "labels": {"app.kubernetes.io/name": "tandem", "app": "tiny"},
        "finalizers": ["a", "b"],
    },
    "spec": {
        "ports": [
            {"port": 80, "targetPort": 8000},
            {"port": 81, "protocol": "UDP", "targetPort": 8001},
        ],
        "env": [{"name": 'a "b]"', "value": "1"}],
        "strategy": {"type": "RollingUpdate"},
    },
}


@pytest.mark.parametrize(
    ("path", "part", "left"),
    [
        ("metadata.labels.app", ("metadata", "labels"), {"app.kubernetes.io/name": "tandem"}),
        ("metadata.labels.app.kubernetes.io/name", ("metadata", "labels"), {"app": "tiny"}),
        ('metadata.finalizers[="a"]', ("metadata", "finalizers"), ["b"]),
        ("spec.strategy.type", ("spec", "strategy"), {}),
        ('spec.ports[port=80,protocol="TCP"].targetPort', ("spec", "ports", 0), {"port": 80}),
        (
            'spec.ports[port=81,protocol="UDP"]',
            ("spec", "ports"),
            [{"port": 80, "targetPort": 8000}],
        ),
        ('spec.env[name="a \\"b]\\""].value', ("spec", "env", 0), {"name": 'a "b]"'}),
    ],
)
def test_a_field_is_taken_out_and_its_neighbours_stay(path, part, left):
    found = without(BODY, [path])

    for step in part:
        found = found[step]
    assert found == left


def test_the_body_itself_stays_as_it_is():
    without(BODY, ["spec.strategy", "metadata.labels.app"])

    assert BODY["spec"]["strategy"] == {"type": "RollingUpdate"}
    assert BODY["metadata"]["labels"]["app"] == "tiny"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "spec.replicas",
        "metadata.labels.ap",
        "spec.ports.port",
        "spec.strategy.type.deeper",
        'spec.ports[port=82,protocol="TCP"].targetPort',
        'spec.ports[port=81,protocol="TCP"].targetPort',
        "spec.ports[nodePort=1].port",
        "spec.ports[port=80",
        'metadata.finalizers[="c"]',
    ],
)
def test_a_path_that_the_body_does_not_hold_is_told(path):
    assert without(BODY, [path]) is None
