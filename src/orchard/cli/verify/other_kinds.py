"""Whether answers of other kinds, and about images, depend on nothing but the request."""

import asyncio
import math
import operator
from collections.abc import Sequence
from typing import Any

import httpx

from orchard.cli.endpoint import ServerError, refusal_text
from orchard.cli.verify.media import PICTURES, PITCHES, make_recording, picture_url
from orchard.cli.verify.parting import gap
from orchard.cli.verify.proof import Proof, Remedy, check
from orchard.cli.verify.subject import Answer, Heard, Refusal, Subject
from orchard.cli.verify.texts import QUESTION, SEEDS, numbered_lines
from orchard.gateway.models.sources import DEMO

_TOKENS = 24
_LOGPROBS = 20
_MISTAKEN = "the cache mistakes one image for another"
_NO_CACHE = Remedy("--prompt-cache-bytes 0, and report it", {"prompt_cache_bytes": 0})
_NOTHING_SHARED = Remedy(
    "--prompt-cache-bytes 0 and --decode-concurrency 1, and report it",
    {"prompt_cache_bytes": 0, "decode_concurrency": 1},
)
_TEXTS = ["A cat sleeps.", "The stock market fell sharply on Monday.", numbered_lines(4), numbered_lines(14)]
_LEAST_COSINE = 0.999  # between two computations of one embedding in half precision; other texts are below 0.99
_SCORE_STEP = 0.01
_NO_WORDS = "the model hears no words in the sounds that were made for it"
_IMAGE_SIZE, _IMAGE_STEPS = "256x256", 2
_SPOKEN = ("Good morning.", "The train leaves at nine.")


@check("images", "right", ("vision",))
async def check_images(subject: Subject) -> Proof:
    """Compare answers about pictures alone with those in any order, company and state of the cache."""
    alone = {name: await _describe(subject, [name], caller) for caller, name in enumerate(PICTURES)}
    if len({answer.text for answer in alone.values()}) == 1:
        if len(set(subject.bare.pictures if subject.bare else ())) < 2:
            return Proof(status="left out", seen="the model says the same of three different pictures")
        seen = f"three pictures get one answer, and in the library's loop different ones: {_MISTAKEN}"
        return _NO_CACHE.problem(seen)
    # In one caller's cache, all prompts have the same text; only the pictures differ.
    later = {name: await _describe(subject, [name], 0) for name in reversed(PICTURES)}
    *described, pair = await asyncio.gather(
        *[_describe(subject, [name], 1) for name in reversed(PICTURES)], _describe(subject, PICTURES[:2], 1)
    )
    together = dict(zip(reversed(PICTURES), described, strict=True))
    other_pair = await _describe(subject, PICTURES[:2], 2)
    rounds = [(alone, later), (alone, together), ({"two pictures": other_pair}, {"two pictures": pair})]
    return _compare_pictures(subject, rounds)


def _compare_pictures(subject: Subject, rounds: Sequence[tuple[dict[str, Answer], dict[str, Answer]]]) -> Proof:
    pairs = [(name, alone, others) for alone, others in rounds for name in alone]
    differing = [pair for pair in pairs if pair[1][pair[0]].text != pair[2][pair[0]].text]
    seen = f"{len(pairs) - len(differing)} of {len(pairs)} answers are equal"
    tolerance = subject.bare.tolerance if subject.bare else 0.0
    for name, alone, others in differing:
        mistaken = next((other for other in alone if other != name and alone[other].text == others[name].text), None)
        if mistaken:
            told = f"the answer about {name} is the one about {mistaken}: {_MISTAKEN}"
            return _NO_CACHE.problem(f"{seen}; {told}")
        apart = gap(alone[name].tokens, others[name].text)
        if apart is None or apart > tolerance:
            told = f"the answer about {name} parts where rounding, {tolerance:.2g}, doesn't explain it"
            return _NOTHING_SHARED.problem(f"{seen}; {told}")
    if differing:
        seen += f"; the others part within this device's rounding, {tolerance:.2g}"
        return Proof(status="rounding", seen=seen)
    return Proof(status="ok", seen=seen)


@check("image library", "right", ("vision",))
async def check_image_library(subject: Subject) -> Proof:
    """Compare answers about pictures with those of mlx-vlm's own loop."""
    if not subject.bare or not subject.bare.pictures:
        return Proof(status="left out", seen="the library's own loop does not run, or reads no pictures")
    if names := subject.settings_apart():
        return Proof(status="left out", seen=f"the library's own loop knows nothing of {', '.join(names)}")
    alone = {name: await _describe(subject, [name], caller) for caller, name in enumerate(PICTURES)}
    bare = {name: Answer(text) for name, text in zip(PICTURES, subject.bare.pictures, strict=True)}
    return _compare_pictures(subject, [(alone, bare)])


async def _describe(subject: Subject, names: Sequence[str], caller: int) -> Answer:
    """Return the answer to a question about pictures."""
    pictures = [{"type": "image_url", "image_url": {"url": picture_url(name)}} for name in names]
    content = [*pictures, {"type": "text", "text": QUESTION}]
    body = {"messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": _TOKENS}
    body |= {"logprobs": True, "top_logprobs": _LOGPROBS}
    choice = (await subject.ask("/v1/chat/completions", body, caller))["choices"][0]
    return Answer(choice["message"]["content"] or "", choice["logprobs"]["content"])


@check("embeddings", "right", ("embeddings",))
async def check_embeddings(subject: Subject) -> Proof:
    """Compare embeddings of texts alone with those of a batch and of several callers at once."""
    alone = [(await _embed(subject, [text]))[0] for text in _TEXTS]
    batch, *others = await asyncio.gather(_embed(subject, _TEXTS), *[_embed(subject, [text], 1) for text in _TEXTS])
    cosines = [_cosine(*pair) for pair in zip(alone, batch, strict=True)]
    cosines += [_cosine(vector, other[0]) for vector, other in zip(alone, others, strict=True)]
    least = min(cosines)
    figures: dict[str, float | None] = {"least_cosine": least}
    seen = f"embeddings of {len(_TEXTS)} texts alone, batched and beside other callers: cosine at least {least:.6f}"
    if least < _LEAST_COSINE:
        return Proof(status="problem", seen=seen, advice="ask for one text at a time, and report it", figures=figures)
    return Proof(status="ok", seen=seen, figures=figures)


async def _embed(subject: Subject, texts: Sequence[str], caller: int = 0) -> list[list[float]]:
    body = {"input": list(texts), "encoding_format": "float"}
    return [one["embedding"] for one in (await subject.ask("/v1/embeddings", body, caller))["data"]]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product: float = sum(map(operator.mul, one, other))
    return product / (math.hypot(*one) * math.hypot(*other))


@check("scores", "right", ("rerank",))
async def check_scores(subject: Subject) -> Proof:
    """Compare scores of documents alone with those of all documents in one request."""
    alone = [(await _rank(subject, [text]))[0] for text in _TEXTS]
    together = await _rank(subject, _TEXTS)
    apart = max(abs(one - other) for one, other in zip(alone, together, strict=True))
    seen = f"scores of {len(_TEXTS)} documents alone and together differ by at most {apart:.2g}"
    if apart > _SCORE_STEP:
        return Proof(status="problem", seen=seen, advice="ask for one document at a time, and report it")
    return Proof(status="ok", seen=seen, figures={"largest_difference": apart})


async def _rank(subject: Subject, documents: Sequence[str]) -> list[float]:
    body = {"query": "Where is the lamp?", "documents": list(documents)}
    results = (await subject.ask("/v1/rerank", body))["results"]
    return [one["relevance_score"] for one in sorted(results, key=lambda one: int(one["index"]))]


@check("recordings", "right", ("transcription",))
async def check_recordings(subject: Subject) -> Proof:
    """Compare the transcription of a recording alone with those beside others, and beside chats with another model."""
    recordings = [make_recording(pitch) for pitch in PITCHES]
    alone = [await _transcribe(subject, recording) for recording in recordings]
    if not any(text for text, *_ in alone):
        return Proof(status="left out", seen=_NO_WORDS)
    beside = await asyncio.gather(*[_transcribe(subject, recording) for recording in recordings * 2])
    chat = await _chat(subject)
    *chats, heard = await asyncio.gather(*[_chat(subject) for _ in recordings], _transcribe(subject, recordings[0]))
    if [*beside, heard] == [*alone * 2, alone[0]] and set(chats) == {chat}:
        seen = f"{len(beside)} transcriptions of sounds at once, and one beside chats, are those of each alone"
        return Proof(status="ok", seen=seen)
    seen = "a transcription beside others differs from the one alone"
    if beside == alone * 2:
        seen = "a transcription beside chats, or a chat beside it, differs from the one alone"
    return Proof(status="problem", seen=seen, advice="ask for one recording at a time, and report it")


@check("sound library", "right", ("transcription",))
async def check_sound_library(subject: Subject) -> Proof:
    """Compare what is heard in recordings with what mlx-audio's own loop hears."""
    if subject.heard is None:
        return Proof(status="left out", seen=f"the library's own loop does not run: {subject.why_not_bare}")
    found = [await _transcribe(subject, make_recording(pitch)) for pitch in PITCHES]
    alone = [Heard(text.strip(), max((one[-1] for one in segments), default=0.0)) for text, segments in found]
    sure = [pair for pair in zip(alone, subject.heard, strict=True) if not any(one.temperature for one in pair)]
    if not sure:
        return Proof(status="left out", seen="the model is so unsure of the sounds that it draws what it hears")
    if not any(one.text for pair in sure for one in pair):
        return Proof(status="left out", seen=_NO_WORDS)
    equal = sum(one == other for one, other in sure)
    seen = f"{equal} of {len(sure)} transcriptions are equal"
    if equal == len(sure):
        return Proof(status="ok", seen=seen)
    return Proof(status="problem", seen=seen, advice="nothing to set: please report it")


async def _chat(subject: Subject) -> str:
    """Return the answer of the bundled chat model, which every server has."""
    body = {"model": DEMO, "messages": [{"role": "user", "content": numbered_lines(4)}], "temperature": 0}
    answer = await subject.ask("/v1/chat/completions", body | {"max_tokens": _TOKENS, "ignore_eos": True})
    return str(answer["choices"][0]["message"])


async def _transcribe(subject: Subject, recording: bytes) -> Any:
    """Return the text, and the segments: their times, texts and temperatures."""
    async with subject.client() as client:
        response = await client.post(
            "/v1/audio/transcriptions",
            data={"model": subject.served_name, "response_format": "verbose_json"},
            files={"file": ("recording.wav", recording)},
        )
    if response.is_error:
        raise ServerError(refusal_text(response))
    body = response.json()
    return body["text"], [
        (one["start"], one["end"], one["text"], one["temperature"]) for one in body.get("segments") or ()
    ]


@check("seeds", "right", ("image",))
async def check_seeds(subject: Subject) -> Proof:
    """Compare images of two seeds alone with those of the same seeds at once."""
    try:
        alone = [await _draw(subject, seed) for seed in SEEDS[:2]]
    except Refusal as refusal:  # such as that of a model that only edits images
        if refusal.status != httpx.codes.BAD_REQUEST:
            raise
        return Proof(status="left out", seen=f"the model does not draw what the check asks for: {refusal.message}")
    together = await asyncio.gather(*[_draw(subject, seed) for seed in SEEDS[:2]])
    if alone[0] == alone[1]:
        return Proof(status="problem", seen="two seeds give the same image", advice="please report it")
    if alone == together:
        return Proof(status="ok", seen=f"{len(alone)} images at once are those of their seeds alone")
    seen = "an image with a seed differs from the one alone"
    if alone[0] in together[1:] or alone[1] in together[:1]:
        seen = "a request got the image of its neighbour's seed"
    return Proof(status="problem", seen=seen, advice="ask for one image at a time, and report it")


async def _draw(subject: Subject, seed: int) -> str:
    body = {"prompt": "A red apple", "seed": seed, "size": _IMAGE_SIZE, "steps": _IMAGE_STEPS}
    answer = await subject.ask("/v1/images/generations", body | {"response_format": "b64_json"})
    return str(answer["data"][0]["b64_json"])


@check("speech", "right", ("speech",))
async def check_speech(subject: Subject) -> Proof:
    """Compare speech alone with speech at once, if the model says a text in the same way each time."""
    alone = [await _speak(subject, text) for text in _SPOKEN]
    again = [await _speak(subject, text) for text in _SPOKEN]
    if not all(any(sound) for sound in alone):
        return Proof(status="problem", seen="the speech is silent", advice="another voice, and report it")
    if alone != again:
        seen = "the model draws what it says, each time in another way, and speech has no seed"
        return Proof(status="left out", seen=seen)
    together = await asyncio.gather(*[_speak(subject, text) for text in _SPOKEN])
    if alone == together:
        return Proof(status="ok", seen=f"{len(alone)} texts spoken at once sound as each alone")
    seen = "speech beside other speech differs from speech alone"
    return Proof(status="problem", seen=seen, advice="ask for one text at a time, and report it")


async def _speak(subject: Subject, text: str) -> bytes:
    """Return the samples."""
    voice = next(iter(subject.entry.voice_names), None)
    body = {"model": subject.served_name, "input": text, "response_format": "pcm", "voice": voice}
    async with subject.client() as client:
        response = await client.post("/v1/audio/speech", json=body)
    if response.is_error:
        raise ServerError(refusal_text(response))
    return response.content
