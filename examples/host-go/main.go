// A host in Go: sends one prompt to tiller, prints the answer as it arrives, runs the tool `depth`
// for the model, and asks on the terminal what extensions want to know. docs/hosts/go.md explains
// it.
//
//	host-go MESSAGE [ARGUMENT of tiller…]     the default is: --model tiller/demo --no-session
//
// TILLER_BIN names the program, HOST_MAX_TURNS limits the requests to the model (default 20), and
// HOST_RESPONSE_SECONDS the wait for each response (default 30).
// Exit codes: 0 done, 1 the prompt failed, 2 wrong usage, 3 a limit was reached, 4 tiller failed,
// 130 aborted.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var depth = Tool{
	Name:        "depth",
	Description: "Looks up the depth of a harbour",
	Parameters: `{"type": "object", "required": ["harbour"],
		"properties": {"harbour": {"type": "string"}}}`,
	Run: func(_ context.Context, arguments json.RawMessage) (string, error) {
		var call struct{ Harbour string }
		if err := json.Unmarshal(arguments, &call); err != nil {
			return "", err
		}
		depths := map[string]string{"Port Isaac": "4 m", "Fowey": "12 m"}
		if depth, ok := depths[call.Harbour]; ok {
			return depth, nil
		}
		return "", fmt.Errorf("unknown harbour: %s", call.Harbour)
	},
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: host-go MESSAGE [ARGUMENT of tiller…]")
		os.Exit(2)
	}
	maxTurns := number("HOST_MAX_TURNS", 20)
	responseLimit := time.Duration(number("HOST_RESPONSE_SECONDS", 30)) * time.Second
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	result, err := run(ctx, os.Args[1], os.Args[2:], maxTurns, responseLimit)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		os.Exit(4)
	}
	reason := result.Reason + result.Error
	if reason != "" {
		reason = ": " + reason
	}
	fmt.Fprintf(os.Stderr, "[%s%s; %d turns, %d tokens]\n",
		result.Status, reason, result.Turns, result.Usage.TotalTokens)
	os.Exit(exitStatus(result.Status))
}

func run(ctx context.Context, message string, arguments []string, maxTurns int,
	responseLimit time.Duration) (PromptResult, error) {
	if len(arguments) == 0 {
		arguments = []string{"--model", "tiller/demo", "--no-session"}
	}
	program := os.Getenv("TILLER_BIN")
	if program == "" {
		program = "tiller"
	}
	command := []string{program, "--mode", "rpc", "--wire", "pi-delta"}
	output := &printer{}
	client, err := Start(ctx, Options{
		Command:  append(command, arguments...),
		Tools:    []Tool{depth},
		Limits:   Limits{MaxTurns: &maxTurns},
		OnEvent:  output.print,
		OnDialog: newTerminal().ask,

		ResponseLimit: responseLimit,
	})
	if err != nil {
		return PromptResult{}, err
	}
	result, err := client.Prompt(ctx, message)
	// If there is a result, it does not depend on how tiller ends after it.
	client.Close()
	output.endLine()
	return result, err
}

func exitStatus(status string) int {
	switch status {
	case "done", "handled":
		return 0
	case "limit":
		return 3
	case "aborted":
		return 130
	}
	return 1
}

// number reads a variable of the environment.
func number(variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "host: %s is not a number\n", variable)
		os.Exit(2)
	}
	return value
}

// printer prints events. It is used by one goroutine at a time.
type printer struct{ inText bool }

func (p *printer) print(event Event) {
	switch e := event.(type) {
	case TextDelta:
		fmt.Print(e.Text)
		p.inText = true
	case TextEnd:
		p.inText = true
		p.endLine()
	case ToolStart:
		fmt.Printf("[%s %s]\n", e.Name, e.Args)
	}
}

func (p *printer) endLine() {
	if p.inText {
		fmt.Println()
	}
	p.inText = false
}

// terminal asks the user, one question at a time.
type terminal struct {
	mutex sync.Mutex
	start sync.Once
	lines chan string
}

func newTerminal() *terminal { return &terminal{lines: make(chan string)} }

// ask shows a dialog and reads a line from stdin. The end of stdin cancels it.
func (t *terminal) ask(ctx context.Context, dialog Dialog) Answer {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	fmt.Fprintln(os.Stderr, strings.TrimSpace(dialog.Title+" "+dialog.Message))
	for i, option := range dialog.Options {
		fmt.Fprintf(os.Stderr, "  %d %s\n", i+1, option)
	}
	t.start.Do(func() { go t.read() })
	select {
	case line, ok := <-t.lines:
		if ok {
			return answerFor(dialog, line)
		}
	case <-ctx.Done():
	}
	return Answer{Cancelled: true}
}

// read reads stdin for as long as the program runs, because a read cannot be cancelled.
func (t *terminal) read() {
	stdin := bufio.NewScanner(os.Stdin)
	for stdin.Scan() {
		t.lines <- stdin.Text()
	}
	close(t.lines)
}

// answerFor turns what the user typed into an answer.
func answerFor(dialog Dialog, line string) Answer {
	switch dialog.Method {
	case "confirm":
		yes := strings.HasPrefix(strings.ToLower(line), "y")
		return Answer{Confirmed: &yes}
	case "select":
		number, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || number < 1 || number > len(dialog.Options) {
			return Answer{Cancelled: true}
		}
		return Answer{Value: &dialog.Options[number-1]}
	}
	return Answer{Value: &line}
}
