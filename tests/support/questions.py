"""What Spark is asked between the zones of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from viewkeeper.pipeline.spark_answers import SparkAnswers
from viewkeeper.pipeline.work import SparkQuestion


def asked(monkeypatch: pytest.MonkeyPatch) -> list[SparkQuestion]:
    """The questions that Spark is asked from here on."""
    questions: list[SparkQuestion] = []
    answer = SparkAnswers.__call__

    def noting(self: SparkAnswers, question: SparkQuestion) -> Any:
        questions.append(question)
        return answer(self, question)

    monkeypatch.setattr(SparkAnswers, "__call__", noting)
    return questions
