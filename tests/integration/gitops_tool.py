"""The judgement of Flux and Argo CD on a pool, by the program of e2e/cluster/modules/gitops."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.gobuild import GITOPS, build, go_problem, is_built
from manifests.generate import ROOT

HEALTH_CHECK = ROOT / "manifests" / "argocd" / "argocd-cm-health.yaml"


@dataclass(frozen=True, slots=True)
class Said:
    """The judgement of a tool on an object."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class GitOpsTool:
    """The program."""

    path: Path

    @classmethod
    def built(cls) -> "GitOpsTool":
        """Build it if need be; a machine without Go skips the test."""
        if not is_built(GITOPS) and (problem := go_problem()):
            pytest.skip(problem)
        return cls(build(GITOPS) / "gitops")

    def kstatus(self, objects: Sequence[Any]) -> list[Said]:
        """Return Flux's verdicts."""
        return self._asked(objects, "kstatus")

    def argocd(self, objects: Sequence[Any]) -> list[Said]:
        """Return Argo CD's verdicts, with the check that users give it."""
        return self._asked(objects, "argocd", "--checks", HEALTH_CHECK)

    def verdicts(self, obj: Any) -> tuple[str, str]:
        """Return both verdicts on one object."""
        return self.kstatus([obj])[0].status, self.argocd([obj])[0].status

    def applying(self, kubeconfig: Path, manifest: str, *, timeout: str) -> subprocess.Popen[str]:
        """Begin Flux's apply and wait; `outcome_of` waits for its end."""
        process = subprocess.Popen(
            [self.path, "apply", "--kubeconfig", kubeconfig, "--timeout", timeout],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(manifest)
        process.stdin.close()
        process.stdin = None
        return process

    def _asked(self, objects: Sequence[Any], *words: str | Path) -> list[Said]:
        asked = json.dumps(list(objects))
        command = [self.path, *words]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [Said(**each) for each in json.loads(done.stdout)]


def outcome_of(process: subprocess.Popen[str], *, within_s: float) -> dict[str, Any]:
    """Return the outcome of an apply."""
    text, _ = process.communicate(timeout=within_s)
    assert process.returncode == 0
    return dict(json.loads(text))
