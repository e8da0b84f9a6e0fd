import pytest

from tandem_engine.serve.engine_failures import MESSAGE_BYTES, error_line, explain

CORE = "(EngineCore pid=18830) ERROR 11-21 12:40:59 [core.py:1512] "


def test_the_first_cause_is_told_and_not_its_echo() -> None:
    log = [
        f"{CORE}ValueError: To serve at least one request, 8 GiB are needed",
        "(APIServer pid=1) INFO 11-21 12:41:00 [launcher.py:1] bye",
        "RuntimeError: Engine core initialization failed. See root cause above.",
        '  File "x.py", line 3, in <module>',
    ]

    assert error_line(log) == "ValueError: To serve at least one request, 8 GiB are needed"


def test_an_echo_is_better_than_nothing() -> None:
    assert error_line(["RuntimeError: Engine core initialization failed."]) is not None


def test_prose_about_errors_is_no_error() -> None:
    assert error_line(["INFO no Error: here", "KeyboardInterrupt"]) is None


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "accept its terms"),
        ("OSError: You are trying to access a gated repo.", "accept its terms"),
        ("huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized", "HF_TOKEN"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.", "check the name"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.", "or give a token"),
        ("huggingface_hub.errors.RevisionNotFoundError: 404 Client Error.", "huggingFace.revision"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: An error happened", "network"),
        ("OSError: We couldn't connect to 'https://huggingface.co'", "network"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "GPU memory"),
        ("ValueError: No available memory for the cache blocks.", "--kv-cache-memory-bytes"),
        ("RuntimeError: NIXL is not available", "name another image, such as vllm/"),
        ("OSError: [Errno 98] Address already in use", "port"),
        ("OSError: [Errno 28] No space left on device", "full"),
    ],
)
def test_what_a_user_can_mend_comes_with_how(line: str, advice: str) -> None:
    sentence = explain([f"{CORE}{line}"], exit_code=1, during="while starting")

    assert sentence.startswith("vLLM ended with code 1 while starting: ")
    assert advice in sentence
    assert "\n" not in sentence


def test_a_model_that_the_hub_does_not_know_is_not_called_gated() -> None:
    log = [
        "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.",
        "If you are trying to access a private or gated repo, make sure you are authenticated",
        "OSError: acme/x is not a local folder and is not a valid model identifier",
    ]

    sentence = explain(log, exit_code=1, during="while starting")

    assert "no model of this name" in sentence
    assert "gated" not in sentence


def test_a_kill_names_the_likely_reason() -> None:
    assert "memory limit" in explain([], exit_code=-9, during="while ready")


def test_an_engine_process_that_was_killed_points_at_memory() -> None:
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."

    sentence = explain([f"{CORE}{dead}"], exit_code=0, during="while ready")

    assert "memory limit" in sentence
    assert "EngineDeadError" not in sentence


def test_without_an_error_the_last_words_are_told() -> None:
    sentence = explain(["one", "the last words", ""], exit_code=3, during="while ready")

    assert sentence.endswith(": the last words")


def test_a_message_fits_what_kubernetes_keeps() -> None:
    sentence = explain(["ValueError: " + "ü" * 9000], exit_code=1, during="while starting")

    assert len(sentence.encode()) <= MESSAGE_BYTES


OF_A_MODEL = [
    "Traceback (most recent call last):",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
    "  Value error, Unknown quantization method: banana. Must be one of ['awq', 'fp8'].",
    "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
]
DUMPED = "  Value error, Cannot find the config file for awq [type=value_error, input_value=Args()]"


def test_of_a_config_that_vllm_refuses_the_line_that_says_why_is_told() -> None:
    found = error_line(OF_A_MODEL)

    assert found == "Unknown quantization method: banana. Must be one of ['awq', 'fp8']."


def test_a_dump_of_all_input_is_not_told() -> None:
    log = ["ValidationError: 1 validation error for VllmConfig", DUMPED]

    assert error_line(log) == "Cannot find the config file for awq"


def test_advice_is_put_into_the_readers_words_and_what_vllm_said_is_not() -> None:
    log = [
        *OF_A_MODEL[:2],
        "  Value error, Unknown quantization method: banana, see --quantization",
    ]

    said = explain(
        log,
        exit_code=1,
        during="while starting",
        worded=lambda text: text.replace("--quantization", "FIELD"),
    )

    assert "the method of FIELD" in said
    assert said.endswith("(Unknown quantization method: banana, see --quantization)")
