import pytest

from tandem_engine.serve.engine_settings import Device, EngineSettings, Role
from tandem_engine.serve.options import OptionError, parse

NEEDED = ("--role=decode", "--model=/models/tiny")


def test_every_setting_is_an_option_of_the_same_name() -> None:
    given = """
        --role=decode --model=m --model-revision=main --served-model-name=n --device=cuda
        --host=127.0.0.1 --port=1 --control-port=2 --side-channel-port=3 --dtype=bfloat16
        --quantization=fp8 --kv-cache-dtype=fp8 --block-size=16 --no-prefix-caching
        --tensor-parallel-size=4 --max-num-seqs=8 --max-model-len=100
        --kv-cache-memory-bytes=1000 --eager --cpu-threads=2 --kv-lease-s=9
        --not-ready-after-s=10 --not-live-after-s=30
        --drain-timeout-s=1.5 --drain-settle-s=0 --stop-timeout-s=4
        --warm-up-peer=http://p:8000 --warm-up-peer-timeout-s=0.5 --termination-log=/x
        --extra-arg=--a=b --extra-arg=--c --own-field=maxNumSeqs
        --gpu-part=shared --fetch-into=/cache/models --required-cache=/cache
    """.split()  # noqa: SIM905

    settings, print_command = parse(given)

    named = {argument.removeprefix("--no-").removeprefix("--").split("=")[0] for argument in given}
    assert named == {name.replace("_", "-") for name in EngineSettings.model_fields}
    assert settings.model_fields_set == set(EngineSettings.model_fields)
    assert settings.device is Device.CUDA
    assert settings.prefix_caching is False
    assert settings.extra_arg == ("--a=b", "--c")
    assert not print_command


def test_role_and_model_are_enough() -> None:
    settings, _ = parse(NEEDED)

    assert settings.role is Role.DECODE
    assert settings.name == "/models/tiny"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--role=decode",), ("--model", "required")),
        (("--model=x",), ("--role", "required")),
        (("--role=both", "--model=x"), ("--role", "'prefill' or 'decode'", "'both'")),
        ((*NEEDED, "--port=70000"), ("--port", "65535", "70000")),
        ((*NEEDED, "--max-num-seqs=many"), ("--max-num-seqs", "integer", "many")),
        ((*NEEDED, "--max-num-seqs=0"), ("--max-num-seqs", "1")),
        ((*NEEDED, "--drain-timeout-s=-1"), ("--drain-timeout-s", "0")),
        ((*NEEDED, "--not-ready-after-s=0"), ("--not-ready-after-s", "1")),
        (
            (*NEEDED, "--not-ready-after-s=90"),
            ("not-live-after-s must be more", "--not-live-after-s=270"),
        ),
        ((*NEEDED, "--dtype=int3"), ("--dtype", "bfloat16", "int3")),
        ((*NEEDED, "--port=8001"), ("must differ", "--port=8000")),
        ((*NEEDED, "--warm-up-peer=p:8000"), ("warm-up-peer", "http://tiny-prefill:8000")),
        (("--role=prefill", "--model=x", "--warm-up-peer=http://p"), ("decode only",)),
        ((*NEEDED, "--max-num-seq=3"), ("unrecognized", "--max-num-seq")),
    ],
)
def test_a_bad_option_is_named_with_what_would_work(
    arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    with pytest.raises(OptionError) as caught:
        parse(arguments)

    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_help_tells_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--help"])

    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for name in EngineSettings.model_fields:
        assert f"--{name.replace('_', '-')}" in shown
