package main

// Tests of the client. The server is this test program itself, playing a part; ../run-tests runs
// the whole host against tiller.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if part := os.Getenv("FAKE_SERVER"); part != "" {
		fakeServer(part)
		return
	}
	os.Exit(m.Run())
}

// fakeServer accepts every command, unless it is silent, and then does what its part says.
func fakeServer(part string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command request
		if json.Unmarshal(lines.Bytes(), &command) != nil {
			os.Exit(9)
		}
		if part == "silent" {
			continue
		}
		id, _ := json.Marshal(command.ID)
		accepted := command.Type != "prompt" || part != "refuse"
		fmt.Printf(`{"id":%s,"type":"response","command":%q,"success":%v,"error":"no model",`+
			`"data":{"promptResults":true}}`+"\n", id, command.Type, accepted)
		result := func(status string) {
			fmt.Printf(`{"type":"prompt_result","id":%s,"status":%q,"turns":1}`+"\n", id, status)
		}
		switch {
		case command.Type == "abort":
			// The result belongs to the prompt, which is the fourth command.
			id = []byte(`"4"`)
			result("aborted")
		case command.Type == "set_limits" && part == "stop reading":
			time.Sleep(time.Hour)
		case command.Type == "prompt" && part == "die":
			fmt.Fprintln(os.Stderr, "first line\nlast words")
			os.Exit(7)
		case command.Type == "prompt" && part == "unknown events":
			fmt.Println(`{"type":"weather","id":"x","sky":["blue"]}`)
			fmt.Printf(`{"type":"message_update","assistantMessageEvent":` +
				`{"type":"text_delta","delta":"a` + "\u2028" + `b"}}` + "\r\n\n")
			result("done")
		case command.Type == "prompt" && part == "junk":
			fmt.Println("Listening on port 80")
		}
	}
}

func startFake(t *testing.T, part string, onEvent func(Event)) *Client {
	t.Setenv("FAKE_SERVER", part)
	options := Options{Command: []string{os.Args[0]}, OnEvent: onEvent}
	client, err := Start(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestUnknownEventsAreIgnoredAndOnlyLFEndsALine(t *testing.T) {
	var text strings.Builder
	client := startFake(t, "unknown events", func(event Event) {
		text.WriteString(event.(TextDelta).Text)
	})
	result, err := client.Prompt(context.Background(), "hello")
	if err != nil || result.Status != "done" || text.String() != "a\u2028b" {
		t.Fatal(result, err, text.String())
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDeathOfTheServerIsReportedWithTheEndOfStderr(t *testing.T) {
	client := startFake(t, "die", nil)
	_, err := client.Prompt(context.Background(), "hello")
	var exited *ServerExited
	if !errors.As(err, &exited) || exited.Code != 7 || !strings.HasSuffix(err.Error(), ": last words") {
		t.Fatal(err)
	}
}

func TestLineThatIsNotARecordEndsTheServer(t *testing.T) {
	client := startFake(t, "junk", nil)
	_, err := client.Prompt(context.Background(), "hello")
	if err == nil || !strings.Contains(err.Error(), "not a record: Listening on port 80") {
		t.Fatal(err)
	}
}

func TestRefusalIsAnError(t *testing.T) {
	client := startFake(t, "refuse", nil)
	_, err := client.Prompt(context.Background(), "hello")
	if err == nil || err.Error() != "tiller refused prompt: no model" {
		t.Fatal(err)
	}
}

func TestEndOfTheContextAbortsTheRun(t *testing.T) {
	client := startFake(t, "hang", nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	result, err := client.Prompt(ctx, "hello")
	if err != nil || result.Status != "aborted" {
		t.Fatal(result, err)
	}
}

func TestServerThatDoesNotAnswerIsKilled(t *testing.T) {
	t.Setenv("FAKE_SERVER", "silent")
	options := Options{Command: []string{os.Args[0]}, ResponseLimit: time.Millisecond}
	_, err := Start(context.Background(), options)
	if err == nil || err.Error() != "tiller has not answered hello within 0.001 s" {
		t.Fatal(err)
	}
}

func TestServerThatDoesNotReadIsKilled(t *testing.T) {
	client := startFake(t, "stop reading", nil)
	client.options.ResponseLimit = time.Millisecond
	_, err := client.Prompt(context.Background(), strings.Repeat("more than a pipe holds", 10_000))
	var late *NoResponse
	if !errors.As(err, &late) || late.Command != "prompt" {
		t.Fatal(err)
	}
}

func TestCompactionsAndDialogsLiftTheLimitOfAResponse(t *testing.T) {
	for line, lifts := range map[string]bool{
		`{"type":"compaction_start"}`:                                          true,
		`{"type":"extension_ui_request","id":"x","method":"input","title":""}`: true,
		`{"type":"agent_start"}`:                                               false,
	} {
		client := startFake(t, "hang", nil)
		limit := time.NewTimer(time.Hour)
		client.mutex.Lock()
		client.pending["7"] = pending{make(chan record, 1), limit}
		client.mutex.Unlock()
		if err := client.handle([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if lifted := !limit.Stop(); lifted != lifts {
			t.Error(line, lifted)
		}
	}
}

func TestAnswerFor(t *testing.T) {
	for _, test := range []struct{ method, line, answer string }{
		{"confirm", "Yes", `{"confirmed":true}`},
		{"confirm", "", `{"confirmed":false}`},
		{"select", "2", `{"value":"next"}`},
		{"select", "3", `{"cancelled":true}`},
		{"input", "some words", `{"value":"some words"}`},
	} {
		dialog := Dialog{Method: test.method, Options: []string{"main", "next"}}
		answer, err := json.Marshal(answerFor(dialog, test.line))
		if err != nil || string(answer) != test.answer {
			t.Error(test, string(answer), err)
		}
	}
}
