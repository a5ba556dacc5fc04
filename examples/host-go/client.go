package main

// The client: commands and their responses, prompts and their results, host tools and dialogs.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Refused reports that tiller refused a command.
type Refused struct{ Command, Reason string }

func (e *Refused) Error() string { return fmt.Sprintf("tiller refused %s: %s", e.Command, e.Reason) }

// NoResponse reports that tiller has not answered a command in time. tiller is killed then.
type NoResponse struct {
	Command string
	Limit   time.Duration
}

func (e *NoResponse) Error() string {
	return fmt.Sprintf("tiller has not answered %s within %g s", e.Command, e.Limit.Seconds())
}

// Tool is a tool that this program runs for the model. An error is a result, too: the model
// reads it.
type Tool struct {
	Name        string
	Description string
	// Parameters is a JSON Schema. tiller checks the arguments against it.
	Parameters string
	// Run may be called by several goroutines at once. Its context ends when tiller no longer waits.
	Run func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// Options say what to start, and what the program does for tiller.
type Options struct {
	Command  []string
	Tools    []Tool
	Limits   Limits
	OnEvent  func(Event)
	OnDialog func(ctx context.Context, dialog Dialog) Answer
	// ResponseLimit is the longest wait for the response to a command, by default 30 seconds. A run
	// is not limited by it.
	ResponseLimit time.Duration
}

// Client is a connection to a running tiller.
type Client struct {
	options Options
	server  *server

	mutex    sync.Mutex
	lastID   int
	pending  map[string]pending
	results  map[string]chan PromptResult
	running  map[string]context.CancelFunc
	finished context.Context
	finish   context.CancelFunc
}

// pending is a command that waits for its response.
type pending struct {
	response chan record
	// limit ends tiller when the response is late.
	limit *time.Timer
}

// Start starts tiller and makes it ready for prompts. Call Close at the end.
func Start(ctx context.Context, options Options) (*Client, error) {
	if options.ResponseLimit == 0 {
		options.ResponseLimit = 30 * time.Second
	}
	c := &Client{
		options: options,
		pending: make(map[string]pending),
		results: make(map[string]chan PromptResult),
		running: make(map[string]context.CancelFunc),
	}
	c.finished, c.finish = context.WithCancel(context.Background())
	// The reader may handle a line before start returns; it needs c.server to answer calls.
	c.mutex.Lock()
	server, err := start(options.Command, c.handle)
	c.server = server
	c.mutex.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.setUp(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) setUp(ctx context.Context) error {
	hello := helloCommand{c.request("hello"), "host-go", true}
	response, err := c.send(ctx, hello.request, hello)
	if err != nil {
		return err
	}
	var data struct{ PromptResults bool }
	if err := json.Unmarshal(response.Data, &data); err != nil || !data.PromptResults {
		return errors.New("this version of tiller has no prompt results")
	}
	tools := setHostToolsCommand{request: c.request("set_host_tools"), Tools: []toolDefinition{}}
	for _, tool := range c.options.Tools {
		parameters := json.RawMessage(tool.Parameters)
		tools.Tools = append(tools.Tools, toolDefinition{tool.Name, tool.Description, parameters})
	}
	if _, err := c.send(ctx, tools.request, tools); err != nil {
		return err
	}
	limits := setLimitsCommand{c.request("set_limits"), c.options.Limits}
	_, err = c.send(ctx, limits.request, limits)
	return err
}

// Prompt sends a message and waits for its result. If ctx ends first, the run is aborted, and the
// result says so.
func (c *Client) Prompt(ctx context.Context, message string) (PromptResult, error) {
	command := promptCommand{c.request("prompt"), message}
	result := make(chan PromptResult, 1)
	c.mutex.Lock()
	c.results[command.ID] = result
	c.mutex.Unlock()
	// The response is awaited even if ctx has ended, because the abort must follow it.
	if _, err := c.send(context.Background(), command.request, command); err != nil {
		return PromptResult{}, err
	}
	select {
	case r := <-result:
		return r, nil
	case <-c.server.done:
		return c.lastResult(result)
	case <-ctx.Done():
	}
	c.server.write(c.request("abort"))
	select {
	case r := <-result:
		return r, nil
	case <-c.server.done:
		return c.lastResult(result)
	case <-time.After(grace):
		c.server.kill()
		<-c.server.done
		return c.lastResult(result)
	}
}

// lastResult returns a result that arrived just before tiller ended.
func (c *Client) lastResult(result chan PromptResult) (PromptResult, error) {
	select {
	case r := <-result:
		return r, nil
	default:
		return PromptResult{}, c.server.err
	}
}

// Close ends tiller. No process is left.
func (c *Client) Close() error {
	err := c.server.close()
	c.finish()
	return err
}

// request returns the head of a command with an id of its own.
func (c *Client) request(name string) request {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.lastID++
	return request{strconv.Itoa(c.lastID), name}
}

// send writes a command and waits for its response. head is the command's own.
func (c *Client) send(ctx context.Context, head request, command any) (record, error) {
	response := make(chan record, 1)
	late := &NoResponse{head.Type, c.options.ResponseLimit}
	// The end of tiller also ends a write that it does not read.
	limit := time.AfterFunc(late.Limit, func() { c.server.end(late) })
	defer limit.Stop()
	c.mutex.Lock()
	c.pending[head.ID] = pending{response, limit}
	c.mutex.Unlock()
	if err := c.server.write(command); err != nil {
		return record{}, err
	}
	var r record
	select {
	case r = <-response:
	case <-ctx.Done():
		return r, ctx.Err()
	case <-c.server.done:
		select {
		case r = <-response:
		default:
			return r, c.server.err
		}
	}
	if !r.Success {
		return r, &Refused{r.Command, r.Error}
	}
	return r, nil
}

// handle is called with each line, by one goroutine. It never waits for tiller.
func (c *Client) handle(line []byte) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil || r.Type == "" {
		if len(line) > 200 {
			line = line[:200]
		}
		return fmt.Errorf("tiller wrote a line that is not a record: %s", line)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch r.Type {
	case "response":
		command, ok := c.pending[r.ID]
		delete(c.pending, r.ID)
		if ok {
			command.response <- r
		} else if !r.Success {
			// For example an invalid tool result: tiller would wait for a valid one.
			return &Refused{r.Command, r.Error}
		}
	case "prompt_result":
		if result, ok := c.results[r.ID]; ok {
			var value PromptResult
			if err := json.Unmarshal(line, &value); err != nil {
				return fmt.Errorf("invalid prompt_result: %w", err)
			}
			delete(c.results, r.ID)
			result <- value
		}
	case "host_tool_call":
		ctx, cancel := context.WithCancel(c.finished)
		c.running[r.ID] = cancel
		go c.runTool(ctx, r)
	case "host_tool_cancel":
		if cancel, ok := c.running[r.TargetID]; ok {
			cancel()
		}
	case "compaction_start":
		c.liftLimits()
	case "extension_ui_request":
		c.liftLimits()
		var dialog Dialog
		if err := json.Unmarshal(line, &dialog); err != nil {
			return fmt.Errorf("invalid extension_ui_request: %w", err)
		}
		go c.answer(r.ID, dialog)
	default:
		if e := event(&r); e != nil && c.options.OnEvent != nil {
			c.options.OnEvent(e)
		}
	}
	return nil
}

// liftLimits lets pending commands wait for as long as they must: a prompt is answered after the
// model has compacted the conversation, or the user has answered a dialog. The caller holds the
// mutex.
func (c *Client) liftLimits() {
	for _, command := range c.pending {
		command.limit.Stop()
	}
}

func (c *Client) runTool(ctx context.Context, call record) {
	text, err := "", fmt.Errorf("unknown tool: %s", call.ToolName)
	for _, tool := range c.options.Tools {
		if tool.Name == call.ToolName {
			text, err = tool.Run(ctx, call.Arguments)
		}
	}
	if err != nil {
		text = err.Error()
	}
	c.mutex.Lock()
	c.running[call.ID]()
	delete(c.running, call.ID)
	c.mutex.Unlock()
	output := toolOutput{[]textBlock{{"text", text}}}
	c.server.write(hostToolResult{request{call.ID, "host_tool_result"}, output, err != nil})
}

// answer answers a dialog. Without OnDialog, and for a method that asks nothing, the answer is
// "cancelled": tiller ignores it if the request needs none.
func (c *Client) answer(id string, dialog Dialog) {
	answer := Answer{Cancelled: true}
	switch dialog.Method {
	case "select", "confirm", "input", "editor":
		if c.options.OnDialog != nil {
			ctx, cancel := c.finished, context.CancelFunc(func() {})
			if dialog.TimeoutMS > 0 {
				limit := time.Duration(dialog.TimeoutMS) * time.Millisecond
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			answer = c.options.OnDialog(ctx, dialog)
			cancel()
		}
	}
	c.server.write(dialogAnswer{request{id, "extension_ui_response"}, answer})
}
