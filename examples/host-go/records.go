package main

// The lines of the protocol that this host writes and reads, with the names of the wire. Fields
// and records that it does not use are left out: unknown ones are ignored.

import "encoding/json"

// request is the head of every command.
type request struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

type helloCommand struct {
	request
	Client        string `json:"client"`
	PromptResults bool   `json:"promptResults"`
}

type promptCommand struct {
	request
	Message string `json:"message"`
}

type setHostToolsCommand struct {
	request
	Tools []toolDefinition `json:"tools"`
}

type toolDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type setLimitsCommand struct {
	request
	Limits
}

// Limits are the limits of each prompt. A limit that is nil is not enforced; 0 is a limit.
type Limits struct {
	MaxTurns     *int     `json:"maxTurns,omitempty"`
	MaxToolCalls *int     `json:"maxToolCalls,omitempty"`
	MaxTokens    *int     `json:"maxTokens,omitempty"`
	MaxCost      *float64 `json:"maxCost,omitempty"`
	MaxSeconds   *float64 `json:"maxSeconds,omitempty"`
}

type hostToolResult struct {
	request
	Result  toolOutput `json:"result"`
	IsError bool       `json:"isError"`
}

type toolOutput struct {
	Content []textBlock `json:"content"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type dialogAnswer struct {
	request
	Answer
}

// Answer is the answer to a Dialog: Value for select, input and editor, Confirmed for confirm.
type Answer struct {
	Value     *string `json:"value,omitempty"`
	Confirmed *bool   `json:"confirmed,omitempty"`
	Cancelled bool    `json:"cancelled,omitempty"`
}

// record is any line of tiller: the union of the fields that this host uses.
type record struct {
	ID   string `json:"id"`
	Type string `json:"type"`

	// response
	Command string          `json:"command"`
	Success bool            `json:"success"`
	Data    json.RawMessage `json:"data"`
	Error   string          `json:"error"`

	// message_update
	Step struct {
		Type  string `json:"type"`
		Delta string `json:"delta"`
	} `json:"assistantMessageEvent"`

	// tool_execution_start, host_tool_call, host_tool_cancel
	ToolName  string          `json:"toolName"`
	Args      json.RawMessage `json:"args"`
	Arguments json.RawMessage `json:"arguments"`
	TargetID  string          `json:"targetId"`
}

// Dialog is a question of an extension, an `extension_ui_request`.
type Dialog struct {
	Method    string   `json:"method"`
	Title     string   `json:"title"`
	Message   string   `json:"message"`
	Options   []string `json:"options"`
	TimeoutMS int      `json:"timeout"`
}

// PromptResult says what became of a prompt.
type PromptResult struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	Error  string `json:"error"`
	Turns  int    `json:"turns"`
	Usage  struct {
		TotalTokens int `json:"totalTokens"`
	} `json:"usage"`
}

// Event is something that happens during a prompt: TextDelta, TextEnd or ToolStart.
type Event interface{ isEvent() }

// TextDelta is more text of the answer.
type TextDelta struct{ Text string }

// TextEnd is the end of a block of text.
type TextEnd struct{}

// ToolStart is a call of a tool, of tiller or of this host.
type ToolStart struct {
	Name string
	Args json.RawMessage
}

func (TextDelta) isEvent() {}
func (TextEnd) isEvent()   {}
func (ToolStart) isEvent() {}

// event returns the event that a record stands for, or nil.
func event(r *record) Event {
	switch {
	case r.Type == "message_update" && r.Step.Type == "text_delta":
		return TextDelta{r.Step.Delta}
	case r.Type == "message_update" && r.Step.Type == "text_end":
		return TextEnd{}
	case r.Type == "tool_execution_start":
		return ToolStart{r.ToolName, r.Args}
	}
	return nil
}
