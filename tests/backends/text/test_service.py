import asyncio
import json
import logging
import re
import shutil
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import stream_generate
from msgspec.structs import replace

from orchard.backends.text import service as service_module
from orchard.backends.text.grammar.process import LIMITS
from orchard.backends.text.grammar.writer import GrammarRequest, GrammarText
from orchard.backends.text.model import TextModel
from orchard.backends.text.output import ChoiceOutput
from orchard.backends.text.prompt import chat_template
from orchard.backends.text.prompt.prompter import PreparedPrompt, Prompter
from orchard.backends.text.service import TextService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Logprob, SettledSampling, Started, Text, Usage, collect
from orchard.core.tasks.generate import Count, Generate, Grammar, Message, Sampling, TextPart, Tool
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.engine import Engine
from orchard.engine.speculation import cost_controller, make
from orchard.engine.speculation.forced_tokens import ForcedProposer
from tests.support.models import WINDOW, Echo, add_head, make_architecture
from tests.support.speculation import FixedController
from tests.support.worker_caller import Caller, serving

GREEDY = Sampling(temperature=0.0)
CALL = '<tool_call>{"name": "f", "arguments": {"a": "b"}}</tool_call>'


def ask(text: str = "Hello, how are you?", **fields: Any) -> Generate:
    defaults: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 20}
    return Generate((Message("user", (TextPart(text),)),), **(defaults | fields))


@pytest.fixture
async def caller(model_folder: Path) -> AsyncIterator[Caller]:
    """The tiny random model; its calibration is stored by the first test."""
    async with serving(model_folder, warm=True) as caller:
        yield caller


@pytest.fixture
async def echo(model_folder: Path, model: TextModel, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    """A model that says back what it was told."""
    monkeypatch.setattr(service_module, "load_text_model", lambda path, options, progress: Echo(model))
    async with serving(model_folder, warm=True) as caller:
        yield caller


def prompt_tokens(model: TextModel, text: str) -> list[int]:
    rendered = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    tokens: list[int] = model.tokenizer.encode(rendered, add_special_tokens=False)
    return tokens


async def test_an_echo_begins_with_the_prompt(caller: Caller, model: TextModel) -> None:
    bare = await caller.ask("a", Generate(prompt="The sea", sampling=GREEDY, max_tokens=5, n=2))
    echoed = await caller.ask("b", Generate(prompt="The sea", sampling=GREEDY, max_tokens=5, n=2, echo=True))
    assert [choice.text for choice in echoed.choices] == ["The sea" + choice.text for choice in bare.choices]
    tokens = tuple(model.tokenizer.encode("The sea"))
    nothing = await caller.ask("c", Generate(prompt=tokens, max_tokens=0, n=2, echo=True))
    assert [(choice.text, choice.reason) for choice in nothing.choices] == [("The sea", "length")] * 2
    assert nothing.usage == Usage(len(tokens), 0)


@pytest.mark.parametrize("given", ["text", "tokens"])
async def test_an_echoed_prompt_has_log_probabilities(caller: Caller, model: TextModel, given: str) -> None:
    tokens = tuple(model.tokenizer.encode("The sea is blue"))
    task = Generate(prompt=tokens if given == "tokens" else "The sea is blue", sampling=GREEDY, max_tokens=3, n=2)
    task = replace(task, echo=True, top_logprobs=1)
    bare = await caller.ask("a", replace(task, echo=False))
    logits = model.network(mx.array([tokens]))[0]
    logits -= mx.logsumexp(logits, axis=-1, keepdims=True)
    expected = [logits[place, token].item() for place, token in enumerate(tokens[1:])]
    for _ in range(2):  # the second time all of it is cached
        found = await caller.ask("b", task)
        assert found.usage.cached_tokens == 0
        for choice, without in zip(found.choices, bare.choices, strict=True):
            assert choice.text == "The sea is blue" + without.text
            first, *prompt = [one for one in choice.logprobs if one.prompt]
            assert (first.token.logprob, first.top) == (None, ())
            assert [one.token.logprob for one in prompt] == pytest.approx(expected, abs=1e-4)
            assert all(len(one.top) == 1 for one in prompt)
            assert b"".join(one.token.bytes for one in (first, *prompt)) == b"The sea is blue"
            assert choice.logprobs[len(tokens) :] == without.logprobs


async def test_a_prompt_alone_may_be_scored(caller: Caller, model: TextModel) -> None:
    tokens = tuple(model.tokenizer.encode("The sea"))
    task = Generate(prompt=tokens, max_tokens=0, n=2, echo=True, top_logprobs=0)
    events = await caller.stream("a", task)
    assert isinstance(events[-1], Finished)
    assert (events[-1].reasons, events[-1].usage) == (("length", "length"), Usage(len(tokens), 0))
    for choice in collect(events).choices:
        assert (choice.text, [one.token.text for one in choice.logprobs]) == ("The sea", ["The", " sea"])
        assert all(one.prompt for one in choice.logprobs)
    await caller.until_free()


async def test_a_raw_prompt_is_answered_with_raw_text(echo: Caller) -> None:
    said = f"<think>a</think>{CALL}"
    prompt = f"<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\n"
    found = await echo.ask("a", Generate(prompt=prompt, max_tokens=200))
    assert (found.choices[0].text, found.choices[0].tool_calls) == (said, [])


async def test_the_start_tells_how_tokens_are_drawn(model_folder: Path) -> None:
    """As the request says, else the server's options, else the model's generation_config.json, else neutrally."""
    async with serving(model_folder, warm=True, defaults=SamplingDefaults(top_p=0.9, presence_penalty=-1.0)) as caller:
        own = Sampling(presence_penalty=1.5)
        for n, task in enumerate((ask(sampling=own), Generate(prompt="The sea", sampling=own, max_tokens=0))):
            (begun, *_) = await caller.stream(f"{n}", task)
            assert isinstance(begun, Started)
            assert begun.sampling == SettledSampling(0.7, 0.9, 1.5, 0.0)


async def test_the_end_tells_what_the_first_token_took(caller: Caller) -> None:
    begin = time.monotonic()
    *_, end = await caller.stream("a", ask(max_tokens=3))
    assert isinstance(end, Finished)
    seconds = end.first_token_seconds
    assert set(seconds) == {"queue", "render", "tokenise", "restore", "lookup", "prefill", "decode"}
    assert all(spent >= 0 for spent in seconds.values())
    assert 0 < sum(seconds.values()) < time.monotonic() - begin


async def test_a_count_is_that_of_the_prompt(caller: Caller, model: TextModel) -> None:
    size = len(prompt_tokens(model, "Hello, how are you?"))
    assert await caller.stream("a", Count(ask())) == [Started(size), Finished((), Usage(size, 0))]
    await caller.until_free()


async def test_a_count_that_must_fit_is_refused_as_an_answer_is(caller: Caller) -> None:
    long = ask("word " * (WINDOW // 3))
    counted = [await caller.failure("a", Count(long, must_fit=True)), await caller.failure("b", long)]
    assert counted[0] == counted[1]
    assert counted[0].kind == "context_length_exceeded"
    assert isinstance((await caller.stream("c", Count(long)))[0], Started)


async def test_the_stop_string_that_ended_an_answer_is_told(echo: Caller) -> None:
    events = await echo.stream("a", ask("The sea is blue", stop=("none", "is"), n=1))
    assert isinstance(events[-1], Finished)
    assert events[-1].stops == ("is",)


async def test_greedy_is_what_mlx_lm_generates(caller: Caller, model: TextModel) -> None:
    prompt = prompt_tokens(model, "Hello, how are you?")
    parts = list(stream_generate(model.network, model.tokenizer, prompt, max_tokens=20))
    found = await caller.ask("a", ask())
    assert found.choices[0].text == model.tokenizer.decode([part.token for part in parts])
    assert found.choices[0].reason == "length"
    assert found.usage == Usage(len(prompt), 20)


async def test_an_answer_ends_at_the_window(caller: Caller) -> None:
    found = await caller.ask("a", ask(max_tokens=None))
    assert found.choices[0].reason == "length"
    assert found.usage.prompt_tokens + found.usage.completion_tokens == WINDOW


async def test_an_answer_ends_with_the_turn(echo: Caller, model: TextModel) -> None:
    found = await echo.ask("a", ask("The sea"))
    assert (found.choices[0].text, found.choices[0].reason) == ("The sea", "stop")
    assert found.usage == Usage(len(prompt_tokens(model, "The sea")), len(model.tokenizer.encode("The sea")) + 1)


async def test_a_prediction_is_counted_and_changes_no_other_number(echo: Caller, model: TextModel) -> None:
    text = "The sea is blue and the sky is grey"
    size = len(model.tokenizer.encode(text))
    plain = await echo.ask("a", ask(text))
    right = await echo.ask("b", ask(text, prediction=text))
    wrong = await echo.ask("c", ask(text, n=2, prediction="1234567890"))
    both = (await echo.ask("d", ask(text, n=2, prediction=text))).usage
    assert right.choices[0].text == wrong.choices[1].text == text
    used, missed = right.usage, wrong.usage
    assert (used.accepted_prediction_tokens, used.rejected_prediction_tokens) == (size, 0)
    assert (both.accepted_prediction_tokens, both.rejected_prediction_tokens) == (2 * size, 0)
    assert missed.accepted_prediction_tokens == 0
    assert missed.rejected_prediction_tokens == 2 * len(model.tokenizer.encode("1234567890"))
    assert used.completion_tokens == plain.usage.completion_tokens == missed.completion_tokens / 2
    assert (plain.usage.accepted_prediction_tokens, plain.usage.rejected_prediction_tokens) == (0, 0)


async def test_a_prediction_is_not_counted_in_what_the_model_thinks(echo: Caller, model: TextModel) -> None:
    """It predicts the answer; reasoning often quotes what the answer then changes."""
    said = "<think>The sea</think>blue"
    thought = await echo.ask("a", ask(said, max_tokens=200, prediction="The sea"))
    assert thought.choices[0].text == "blue"
    assert thought.usage.accepted_prediction_tokens == 0
    assert thought.usage.rejected_prediction_tokens == len(model.tokenizer.encode("The sea"))
    right = await echo.ask("b", ask(said, max_tokens=200, prediction="blue"))
    assert right.usage.accepted_prediction_tokens == len(model.tokenizer.encode("blue"))


async def test_the_engine_is_told_what_to_propose(echo: Caller, model: TextModel, monkeypatch: Any) -> None:
    jobs: list[Job] = []
    add_job = Engine.add_job

    def spied(engine: Engine[Any], job: Job) -> None:
        jobs.append(job)
        add_job(engine, job)

    monkeypatch.setattr(Engine, "add_job", spied)
    await echo.ask("a", ask("Hi", prediction="The sea", speculates=False))
    await echo.ask("b", ask("Hi"))
    assert [(job.prediction, job.speculates) for job in jobs] == [
        (tuple(model.tokenizer.encode("The sea")), False),
        ((), True),
    ]


async def test_a_stop_string_frees_the_row(echo: Caller, model: TextModel) -> None:
    events = await echo.stream("a", ask("The sea is blue", stop=("a is",)))
    assert collect(events).choices[0].text == "The se"
    assert collect(events).choices[0].reason == "stop"
    assert collect(events).usage.completion_tokens == len(model.tokenizer.encode("The sea is"))
    await echo.until_free()


async def test_a_stop_string_really_stops(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (await caller.ask("a", ask(max_tokens=400))).choices[0].text
    told: list[tuple[str, int | None]] = []
    cancel = caller.service._engine.cancel

    def noted(job_id: str, choice: int | None = None) -> None:
        told.append((job_id, choice))
        cancel(job_id, choice)

    monkeypatch.setattr(caller.service._engine, "cancel", noted)
    found = await caller.ask("b", ask(max_tokens=400, stop=(text[10:12],)))
    assert found.choices[0].text == text[: text.index(text[10:12])]
    assert found.usage.completion_tokens < 40
    await caller.until_free()
    assert told == [("b", 0)]


@pytest.mark.parametrize("choices", [1, 2])
async def test_a_stop_string_among_tokens_that_come_together(
    choices: int, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step brings behind it is neither sent nor counted."""
    monkeypatch.setattr(make, "CostController", lambda: FixedController(6))
    async with serving(model_folder, warm=True) as caller:
        text = (await caller.ask("a", ask(max_tokens=80))).choices[0].text
        for end in (-24, -22):  # one of them is not the last that a step brings
            stop = ask(max_tokens=80, stop=(text[end - 6 : end],), n=choices)
            plain = await caller.ask(f"plain {end}", replace(stop, speculates=False))
            messages = len(caller.numbers)
            found = await caller.ask(f"guessed {end}", stop)  # the first answer is proposed
            assert [one.text for one in found.choices] == [one.text for one in plain.choices]
            assert found.choices[0].text == text[: text.index(text[end - 6 : end])]
            assert found.usage == plain.usage
            assert len(caller.numbers) - messages < found.usage.completion_tokens / choices / 2
        await caller.until_free()


async def test_a_tool_call(echo: Caller) -> None:
    found = await echo.ask("a", ask(CALL, tools=(Tool("f"),), max_tokens=200))
    (choice,) = found.choices
    assert [(call.name, call.arguments) for call in choice.tool_calls] == [("f", '{"a": "b"}')]
    assert (choice.text, choice.reason) == ("", "tool_calls")
    assert (await echo.ask("b", ask(CALL, max_tokens=200))).choices[0].text == CALL


async def test_the_log_says_why_a_call_stays_text(echo: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "orchard.worker"):
        await echo.ask("a", ask(CALL.replace('"b"', "secret"), tools=(Tool("f"),), max_tokens=200))
    (line,) = [one for one in caplog.messages if one.startswith("request a: ")]
    assert re.fullmatch(r"request a: a call of 'f' breaks after \d+ characters, and it stays text: a value is .*", line)
    assert "secret" not in line


async def test_blank_text_beside_calls_is_no_answer(echo: Caller) -> None:
    found = await echo.ask("a", ask(f"{CALL} \n {CALL}", tools=(Tool("f"),), max_tokens=200))
    (choice,) = found.choices
    assert (choice.text, len(choice.tool_calls), choice.reason) == ("", 2, "tool_calls")


async def test_reasoning_is_counted(echo: Caller, model: TextModel) -> None:
    found = await echo.ask("a", ask("<think>The sea</think>blue", max_tokens=200))
    assert (found.choices[0].reasoning, found.choices[0].text) == ("The sea", "blue")
    assert found.usage.reasoning_tokens == len(model.tokenizer.encode("<think>The sea</think>"))
    opened = await echo.ask("b", ask("The sea</think>blue", max_tokens=200, template_args={"enable_thinking": True}))
    assert (opened.choices[0].reasoning, opened.choices[0].text) == ("The sea", "blue")
    assert opened.usage.reasoning_tokens == found.usage.reasoning_tokens - 1


async def test_a_seeded_request_is_the_same_in_company(caller: Caller) -> None:
    seeded = ask(sampling=Sampling(seed=5, temperature=1.5), n=2, top_logprobs=1)
    alone = await caller.ask("alone", seeded)
    for n in range(5):
        caller.submit(f"other-{n}", ask("The sea is blue " * n, sampling=Sampling(temperature=1.0)))
    together = await caller.ask("together", seeded)
    assert [choice.text for choice in together.choices] == [choice.text for choice in alone.choices]
    assert alone.choices[0].text != alone.choices[1].text
    assert alone.usage.completion_tokens == 40
    unseeded = ask(sampling=Sampling(temperature=1.5))
    assert (await caller.ask("x", unseeded)).choices[0].text != (await caller.ask("y", unseeded)).choices[0].text


async def test_every_request_gets_its_own_stream(caller: Caller) -> None:
    tasks = {f"r{n}": ask("The sea " * n, max_tokens=5 + n, n=1 + n % 3) for n in range(12)}
    found = dict(zip(tasks, await asyncio.gather(*(caller.ask(*item) for item in tasks.items())), strict=True))
    for name, task in tasks.items():
        assert task.max_tokens
        assert found[name].usage.completion_tokens == task.max_tokens * task.n
        assert [choice.reason for choice in found[name].choices] == ["length"] * task.n
    assert max(running for running, _ in caller.numbers) > 1
    await caller.until_free()


async def test_logprobs(caller: Caller, model: TextModel) -> None:
    found = await caller.ask("a", ask(top_logprobs=2))
    logprobs = found.choices[0].logprobs
    assert all(isinstance(item, Logprob) and len(item.top) == 2 for item in logprobs)
    assert b"".join(item.token.bytes for item in logprobs).decode("utf-8", "replace") == found.choices[0].text
    assert all(item.token == item.top[0] for item in logprobs)
    assert all(not choice.logprobs for choice in (await caller.ask("b", ask())).choices)


async def test_a_cancelled_request_is_silent_and_frees_its_row(caller: Caller) -> None:
    for request_id in ("a", "b"):
        caller.submit(request_id, ask(max_tokens=400))
    await caller.until(lambda: any(isinstance(event, Text) for event in caller.events["a"]))
    caller.service.cancel("a")
    caller.service.cancel("unknown")
    seen = list(caller.events["a"])
    expected = await caller.ask("alone", ask(max_tokens=400))
    await caller.until(lambda: caller.ended("b"))
    assert caller.events["a"] == seen
    assert collect(caller.events["b"]).choices == expected.choices
    await caller.until_free()


async def test_a_request_cancelled_at_once_never_runs(caller: Caller) -> None:
    caller.submit("a", ask(max_tokens=None))
    caller.service.cancel("a")
    await caller.ask("b", ask())
    await caller.until_free()
    assert caller.events["a"] == []


async def test_a_request_cancelled_while_it_waits_is_not_prepared(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, busy, asked = threading.Event(), threading.Event(), []
    prepare = Prompter.prepare

    def slow(prompter: Prompter, task: Generate, *args: Any) -> PreparedPrompt:
        asked.append(task.max_tokens)
        begun.set()
        busy.wait(30)
        return prepare(prompter, task, *args)

    monkeypatch.setattr(Prompter, "prepare", slow)
    for n in (1, 2, 3):
        caller.submit(f"r{n}", ask(max_tokens=n))
    await asyncio.to_thread(begun.wait, 30)
    caller.service.cancel("r1")
    caller.service.cancel("r2")
    await asyncio.sleep(0)  # the executor hears of it in the loop's next turn
    busy.set()
    await caller.until(lambda: caller.ended("r3"))
    assert asked == [1, 3]
    assert (caller.events["r1"], caller.events["r2"]) == ([], [])


async def test_a_broken_template_fails_the_load(model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"chat_template": "{{% bad"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    service = TextService(str(folder), TextOptions())
    with pytest.raises(OrchardError, match="chat template is broken") as caught:
        await service.start(lambda *_: None, lambda fraction: None)
    assert caught.value.kind == "model_failed"
    await service.close(1.0)


LOOP = "{% for _ in range(99999) %}" * 3 + "{% endfor %}" * 3


@pytest.mark.parametrize("kind", [Count, lambda task: task])
async def test_a_template_that_loops_fails_that_request_alone(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.setattr(chat_template, "_RENDER_SECONDS", 0.2)
    tokenizer = caller.service._prompter.template._hf
    looping = "{% if messages[-1].content == 'loop' %}" + LOOP + "{% endif %}" + tokenizer.chat_template
    monkeypatch.setattr(tokenizer, "chat_template", looping)
    bad, good = await asyncio.gather(caller.failure("bad", kind(ask("loop"))), caller.ask("good", ask()))
    assert (bad.kind, bad.param) == ("invalid_request", "messages")
    assert "chat template did not finish within 0.2 seconds" in bad.message
    assert good.usage.completion_tokens == 20
    await caller.until_free()


async def test_a_template_that_always_loops_fails_the_load(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "_RENDER_SECONDS", 0.2)
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text()) | {"chat_template": LOOP}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    service = TextService(str(folder), TextOptions())
    with pytest.raises(OrchardError, match="chat template did not finish") as caught:
        await service.start(lambda *_: None, lambda fraction: None)
    assert caught.value.kind == "model_failed"
    await service.close(0.0)


async def test_the_silence_of_the_prompt_thread_is_told(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, busy = threading.Event(), threading.Event()
    encode = Prompter.prepare

    def hung(prompter: Prompter, task: Generate, *args: Any) -> PreparedPrompt:
        begun.set()
        busy.wait(30)
        return encode(prompter, task, *args)

    monkeypatch.setattr(Prompter, "prepare", hung)
    caller.submit("a", ask())
    await asyncio.to_thread(begun.wait, 30)
    assert caller.service.heartbeat().silent_seconds > 0
    busy.set()
    await caller.until_free()
    assert caller.service._prompts.silent_seconds == 0


async def test_who_has_no_grammar_waits_for_none_and_small_ones_go_first(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, busy, order = threading.Event(), threading.Event(), []
    constraints = caller.service._prompter.constraints
    write = constraints._write

    def slow(wanted: GrammarRequest) -> GrammarText | None:
        assert wanted.grammar
        order.append(len(wanted.grammar.value))
        if len(order) == 1:
            begun.set()
            busy.wait(30)
        return write(wanted)

    monkeypatch.setattr(constraints, "_write", slow)

    def bound(size: int) -> Generate:
        return ask(grammar=Grammar("choice", ["The sea"] * size, "response_format"))

    caller.submit("first", bound(9))
    await asyncio.to_thread(begun.wait, 30)
    assert caller.service.heartbeat().silent_seconds > 0
    for size in (300, 200, 100):
        caller.submit(f"r{size}", bound(size))
    await caller.ask("free", ask())
    assert order == [9]
    busy.set()
    await caller.until_free()
    assert order == [9, 100, 200, 300]
    await caller.ask("again", bound(200))
    assert len(order) == 4


async def test_a_grammar_that_takes_too_long_is_refused(caller: Caller) -> None:
    schema = {"allOf": [{"type": "string", "pattern": f".*[a-z]{{{20 + n}}}.*"} for n in range(30)]}
    caller.service._prompter.grammars._process.limits = LIMITS._replace(cpu_seconds=0.3)
    refused = await caller.failure("a", ask(grammar=Grammar("json_schema", schema, "response_format")))
    assert (refused.kind, refused.param) == ("invalid_request", "response_format")
    assert refused.message == "the json_schema of `response_format` can't be enforced: compiling it takes too long"
    found = await caller.ask("b", ask(grammar=Grammar("choice", ["The sea"], "response_format")))
    assert found.choices[0].text == "The sea"


async def test_refusals_are_events_and_streams_run_on(caller: Caller) -> None:
    stream = asyncio.create_task(caller.ask("stream", ask(max_tokens=200)))
    too_long = await caller.failure("long", ask("word " * 480_000))
    assert too_long.kind == "context_length_exceeded"
    bias = await caller.failure("bias", ask(sampling=Sampling(logit_bias={10**6: 1.0})))
    assert (bias.kind, bias.param) == ("invalid_request", "logit_bias")
    assert (await stream).usage.completion_tokens == 200
    await caller.until_free()


async def test_the_queue_is_bounded(model_folder: Path) -> None:
    async with serving(model_folder, warm=True, decode_concurrency=1, queue_size=1) as caller:
        for n in range(2):
            caller.submit(f"r{n}", ask())
        refused = await caller.failure("one too many", ask())
        assert (refused.kind, refused.retry_after) == ("overloaded", 5)
        caller.submit("another's", ask(), caller="ben")
        await caller.until(lambda: all(map(caller.ended, ("r0", "r1", "another's"))))
        assert isinstance(caller.events["another's"][-1], Finished)
        await caller.ask("later", ask())


async def test_another_callers_request_does_not_wait_for_a_long_one(model_folder: Path) -> None:
    async with serving(model_folder, warm=True, decode_concurrency=2) as caller:
        for n in range(4):
            caller.submit(f"r{n}", ask(max_tokens=400), caller="ann")
        await caller.until(lambda: bool(caller.events["r0"] and caller.events["r1"]))
        caller.submit("small", ask(max_tokens=5), caller="ben")
        await caller.until(lambda: caller.ended("small"))
        assert not any(caller.ended(f"r{n}") for n in range(4))


async def test_output_that_cannot_be_read_fails_alone(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChoiceOutput.feed

    def poisoned(answer: ChoiceOutput, drawn: Any) -> list[Event]:
        if drawn.job == "bad":
            raise RuntimeError("poison")
        return feed(answer, drawn)

    monkeypatch.setattr(ChoiceOutput, "feed", poisoned)
    bad, good = await asyncio.gather(caller.failure("bad", ask(n=2)), caller.ask("good", ask()))
    assert bad.kind == "internal"
    assert good.usage.completion_tokens == 20
    await caller.until_free()


async def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    service = TextService(str(tmp_path), TextOptions())
    with pytest.raises(OrchardError) as caught:
        await service.start(lambda *_: None, lambda fraction: None)
    assert caught.value.kind == "model_failed"
    await service.close(1.0)


async def test_closing_ends_running_requests(model_folder: Path) -> None:
    async with serving(model_folder) as caller:
        caller.submit("a", ask(max_tokens=None))
        await caller.until(lambda: bool(caller.events["a"]))


@pytest.mark.parametrize("attack", [{"top_k": 10**6}, {"top_p": 0.0}, {"min_p": 1.0}, {"top_k": 1, "top_p": 0.0}])
async def test_extreme_parameters_leave_the_engine_alive(caller: Caller, attack: dict[str, Any]) -> None:
    # Seeded: a random model draws the end of the turn now and then.
    sampling = Sampling(temperature=1.0, seed=1, **attack)
    assert (await caller.ask("a", ask(sampling=sampling))).usage.completion_tokens == 20
    assert (await caller.ask("b", ask())).usage.completion_tokens == 20


async def test_a_paused_request_is_silent_until_it_is_resumed(caller: Caller) -> None:
    expected = await caller.ask("alone", ask(max_tokens=200))
    caller.submit("a", ask(max_tokens=200))
    await caller.until(lambda: any(isinstance(event, Text) for event in caller.events["a"]))
    caller.service.pause("a")
    caller.service.pause("unknown")
    await caller.until(lambda: caller.numbers[-1] == (0, 1))
    seen = len(caller.events["a"])
    await caller.ask("b", ask(max_tokens=200))
    assert len(caller.events["a"]) == seen
    caller.service.resume("a")
    caller.service.resume("unknown")
    await caller.until(lambda: caller.ended("a"))
    assert collect(caller.events["a"]).choices == expected.choices


async def test_a_draft_model_guesses_and_the_report_names_it(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "NgramProposer", ForcedProposer)  # so that only the draft guesses
    monkeypatch.setattr(cost_controller, "_MARGIN", 1e-9)  # whatever it costs
    tasks = [ask(str(number), max_tokens=60) for number in range(2)]
    plain: list[str] = []
    async with serving(model_folder, warm=True) as caller:
        plain = [(await caller.ask(str(place), task)).choices[0].text for place, task in enumerate(tasks)]
    async with serving(model_folder, draft_model_path=str(model_folder), num_draft_tokens=3) as caller:
        found = [(await caller.ask(str(place), task)).choices[0].text for place, task in enumerate(tasks)]
        assert found == plain
        report = caller.service.speculation()
        assert set(report) == {"draft"}
        assert 0 < report["draft"].accepted == report["draft"].proposed


async def test_a_draft_with_another_tokenizer_is_refused(model_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model_folder, tmp_path / "draft")
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace("<tool_call>", "<call>"))
    service = TextService(str(model_folder), TextOptions(draft_model_path=str(folder)))
    caller = Caller(service)
    with pytest.raises(OrchardError, match="can't guess for this model: it has another tokenizer"):
        await service.start(caller.emit, lambda fraction: None)
    await service.close(1.0)


async def test_the_models_own_head_guesses_and_the_report_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_architecture(tmp_path, "qwen3_5")
    add_head(tmp_path)
    monkeypatch.setattr(make, "NgramProposer", ForcedProposer)  # so that only the head guesses
    monkeypatch.setattr(cost_controller, "_MARGIN", 1e-9)  # whatever it costs
    async with serving(tmp_path) as caller:
        for number in range(2):
            await caller.ask(str(number), ask(str(number), max_tokens=40))
        report = caller.service.speculation()
    assert set(report) == {"mtp"}
    assert report["mtp"].proposed
