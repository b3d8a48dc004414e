"""An application: what its file says, with the code that the file refers to."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.app_file.code import Code
from orchestrator.app_file.document import AppFile, AssistantEntry, FunctionEntry, ServerToolEntry
from orchestrator.guardrails import Guardrail
from orchestrator.loading import Tools
from orchestrator.records import Assistant, GuardPoint, Json
from orchestrator.server_tools import name_of


@dataclass(frozen=True, slots=True)
class App:
    """Without a file, an application of which nothing is said."""

    file: AppFile = field(default_factory=AppFile)
    code: Code = field(default_factory=lambda: Code(Path()))

    @property
    def tools(self) -> Tools:
        """Those of the file's modules."""
        return self.code.tools

    def guardrails(self) -> Iterator[Guardrail]:
        """The rules, in the order of the file."""
        for entry in self.file.guardrails:
            yield Guardrail(
                name=entry.function,
                on=GuardPoint(entry.on),
                function=self.code.function(entry.function),
                timeout_s=entry.timeout_s,
                tools=frozenset(entry.tools),
                models=tuple(entry.models),
            )

    def assistants(self) -> Iterator[Json]:
        """The fields of each assistant's record, but for its id and its time."""
        for entry in self.file.assistants:
            given = entry.model_dump(exclude_unset=True, by_alias=True, exclude={"tools"})
            yield {
                name: Assistant.model_fields[name].get_default() if value is None else value
                for name, value in given.items()
            } | {"tools": tuple(self.tools_of(entry))}

    def tools_of(self, assistant: AssistantEntry) -> Iterator[Json]:
        """As the API has them, but for those that are switched off."""
        for name in assistant.tools:
            entry = self.file.tools.get(name, FunctionEntry())
            if entry.enabled:
                yield self._tool(name, entry)

    def _tool(self, name: str, entry: FunctionEntry | ServerToolEntry) -> Json:
        if isinstance(entry, ServerToolEntry):
            limit = {} if entry.max_uses is None else {"max_uses": entry.max_uses}
            tool: Json = {"type": entry.type}
            return tool | {"name": name_of(tool)} | limit | entry.options
        described = self.tools[name].spec if name in self.tools else entry
        texts = described.model_dump(include={"description", "parameters"}, exclude_none=True)
        return {"type": "function", "function": {"name": name, **texts}}
