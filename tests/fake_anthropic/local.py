"""A server on this machine that speaks the Messages API, as Ollama, vLLM and others do.

It has no Models API and no count, tells of its model in its own words or not at all, and may see no
images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import ApiError
from .exchange import Exchange, Result
from .fake import FakeAnthropic
from .models import FakeModel
from .record import Recorded
from .script import Script

NO_SIGHT = "image input is not supported - hint: you may need to provide the mmproj"


class FakeLocal(FakeAnthropic):
    """`told` is what it answers by path; `sees` False: it refuses images."""

    def __init__(
        self,
        script: Script = (),
        *,
        told: Mapping[str, Any] | None = None,
        sees: bool = True,
        name: str = "local",
        window: int = 32_000,
    ) -> None:
        model = FakeModel(window=window, max_output=8_000, efforts=())
        super().__init__(script, models={name: model}, has_models=False, has_count_tokens=False)
        self.told = dict(told or {})
        self.sees = sees

    def _exchange(self, record: Recorded) -> Exchange:
        return _Local(self, record)


class _Local(Exchange):
    fake: FakeLocal

    def answer(self) -> Result:
        record = self.record
        if record.path in self.fake.told:
            record.status = 200
            found: dict[str, Any] = self.fake.told[record.path]
            return found
        if not self.fake.sees and b'"type":"image"' in record.body:
            self._scripted = ApiError(500, NO_SIGHT)
            raise self._scripted
        return super().answer()
