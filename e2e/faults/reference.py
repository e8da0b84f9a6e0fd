"""A fixed set of prompts and their answers on an undisturbed pool, to compare every answer with.

Only prompts whose answer is the same alone and among others are kept: a later difference is there
because of the fault.
"""

import asyncio
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Self

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import FIRST_PLAIN_TOKEN_ID, Lengths, PlannedRequest
from benchmarks.load.record import Outcome, Record

PROMPTS = 24
VOCABULARY = 1024
PROMPT_TOKENS = Lengths(50, 600)
OUTPUT_TOKENS = Lengths(20, 200)
LEAST_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt and the tokens that it is answered with."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    def asked(self, name: str, *, at_s: float, streamed: bool) -> PlannedRequest:
        """Return the question as one request that no prefix cache can serve."""
        return PlannedRequest(
            request_id=name,
            at_s=at_s,
            prompt_token_ids=self.prompt,
            output_tokens=len(self.answer),
            streamed=streamed,
            cache_salt=secrets.token_hex(8),
            wants_token_ids=True,
        )

    def difference(self, record: Record) -> str | None:
        """Return how a record differs from the answer; a part of the answer is right so far."""
        came = record.token_ids or ()
        for place, (got, expected) in enumerate(zip(came, self.answer, strict=False)):
            if got != expected:
                return f"token {place + 1} of {len(self.answer)} is {got}, not {expected}"
        if len(came) > len(self.answer):
            return f"{len(came)} tokens came, not {len(self.answer)}"
        if record.outcome is Outcome.FINISHED and len(came) < len(self.answer):
            return f"the answer ended after {len(came)} of {len(self.answer)} tokens"
        return None


@dataclass(frozen=True, slots=True)
class Reference:
    """All questions."""

    questions: tuple[Question, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read back what `write` wrote."""
        found = json.loads(path.read_text())
        return cls(tuple(Question(tuple(p), tuple(a)) for p, a in found))

    def write(self, path: Path) -> None:
        """Keep it for later runs on the same engine."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([[each.prompt, each.answer] for each in self.questions]) + "\n")

    def plan(
        self, *, seed: int, rate_rps: float, duration_s: float, run: str, streamed_share: float
    ) -> list[tuple[PlannedRequest, Question]]:
        """Return Poisson arrivals with random questions; equal seeds give equal plans."""
        random = Random(f"{seed}/{run}")
        planned = []
        at_s = random.expovariate(rate_rps)
        while at_s < duration_s:
            question = random.choice(self.questions)
            streamed = random.random() < streamed_share
            name = f"{run}-{seed}-{len(planned):04d}"
            planned.append((question.asked(name, at_s=at_s, streamed=streamed), question))
            at_s += random.expovariate(rate_rps)
        return planned


def record_reference(url: str, *, model: str = "tiny") -> Reference:
    """Ask an undisturbed pool one by one, then all at once, twice."""
    return asyncio.run(_record(url, model=model))


async def _record(url: str, *, model: str) -> Reference:
    random = Random("reference")
    wanted = [
        Question(
            prompt=tuple(
                random.choices(
                    range(FIRST_PLAIN_TOKEN_ID, VOCABULARY), k=PROMPT_TOKENS.draw(random)
                )
            ),
            answer=(0,) * OUTPUT_TOKENS.draw(random),
        )
        for _ in range(PROMPTS)
    ]
    async with LoadGenerator(url=url, model=model) as generator:

        async def ask(which: Sequence[Question], run: str) -> list[Record]:
            plan = [
                each.asked(f"reference-{run}-{number}", at_s=0.0, streamed=number % 2 == 0)
                for number, each in enumerate(which)
            ]
            return await generator.run(plan, traffic="reference")

        alone = [(await ask([each], f"{number}"))[0] for number, each in enumerate(wanted)]
        together = [await ask(wanted, "a"), await ask(wanted, "b")]
    found = tuple(
        replace(question, answer=first.token_ids or ())
        for question, first, *others in zip(wanted, alone, *together, strict=True)
        if first.outcome is Outcome.FINISHED
        and len(first.token_ids or ()) == len(question.answer)
        and all(other.token_ids == first.token_ids for other in others)
    )
    if len(found) < LEAST_SHARE * len(wanted):
        reasons = {record.why for record in alone if record.why}
        raise RuntimeError(
            f"only {len(found)} of {len(wanted)} prompts are answered the same way each time; "
            f"errors: {', '.join(sorted(reasons)) or 'none'}"
        )
    if len({question.answer[:8] for question in found}) < LEAST_SHARE * len(found):
        raise RuntimeError("too many prompts have the same answer: a wrong one would not be seen")
    return Reference(found)
