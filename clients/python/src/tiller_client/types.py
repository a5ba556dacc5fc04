"""The data of responses, and the events: dictionaries with the names of the wire.

Their fields are described in tiller's docs/protocol.md and by `tiller schema`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

#: A record of tiller that is not a response. `event["type"]` names it.
Event: TypeAlias = JsonObject

ActiveToolsData: TypeAlias = JsonObject
AvailableCommandsData: TypeAlias = JsonObject
BashData: TypeAlias = JsonObject
Capabilities: TypeAlias = JsonObject
ChangeData: TypeAlias = JsonObject
ClearedQueuesData: TypeAlias = JsonObject
CommandsData: TypeAlias = JsonObject
CompactionResult: TypeAlias = JsonObject
CycledLevelData: TypeAlias = JsonObject
CycledModelData: TypeAlias = JsonObject
DiagnosticsData: TypeAlias = JsonObject
EntriesData: TypeAlias = JsonObject
EventsData: TypeAlias = JsonObject
ExportData: TypeAlias = JsonObject
ForkMessagesData: TypeAlias = JsonObject
HelloData: TypeAlias = JsonObject
HostToolsData: TypeAlias = JsonObject
IntegrationsData: TypeAlias = JsonObject
LastTextData: TypeAlias = JsonObject
LimitsData: TypeAlias = JsonObject
MessagesData: TypeAlias = JsonObject
MessagesPageData: TypeAlias = JsonObject
Model: TypeAlias = JsonObject
ModelsData: TypeAlias = JsonObject
PromptResult: TypeAlias = JsonObject
QueueData: TypeAlias = JsonObject
QueuedMessageData: TypeAlias = JsonObject
RecordPiece: TypeAlias = JsonObject
ReloadData: TypeAlias = JsonObject
SessionsData: TypeAlias = JsonObject
StateData: TypeAlias = JsonObject
StatsData: TypeAlias = JsonObject
ThinkingLevelsData: TypeAlias = JsonObject
TodosData: TypeAlias = JsonObject
ToolsData: TypeAlias = JsonObject
TreeData: TypeAlias = JsonObject
Usage: TypeAlias = JsonObject
