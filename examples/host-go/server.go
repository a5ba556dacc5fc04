package main

// The process: starts tiller, reads and writes its lines, and ends it. Knows nothing of what the
// lines mean.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long tiller may take to end after EOF, and to end a run after an abort.
const grace = 5 * time.Second

// stderrTail is how much of stderr an error can quote.
const stderrTail = 4096

// ServerExited reports that tiller ended while the host still needed it.
type ServerExited struct {
	Code   int
	Stderr string
}

func (e *ServerExited) Error() string {
	lines := strings.Split(strings.TrimSpace(e.Stderr), "\n")
	return fmt.Sprintf("tiller ended early (exit code %d): %s", e.Code, lines[len(lines)-1])
}

// server is a running tiller.
type server struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr tail
	// mutex makes each line one write.
	mutex sync.Mutex
	// done is closed when the process has ended and its last line was handled; err is set before.
	done chan struct{}
	err  error
	// reason says why the host killed the process.
	reason chan error
}

// start starts the program. handle is called with each line, in order, by one goroutine; an error
// ends the process.
func start(command []string, handle func([]byte) error) (*server, error) {
	s := &server{
		cmd:    exec.Command(command[0], command[1:]...),
		done:   make(chan struct{}),
		reason: make(chan error, 1),
	}
	// In a process group of its own, tiller does not get the terminal's Ctrl-C: the host aborts the
	// run and reads its result.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Pipes of our own: with StdoutPipe, Wait would discard what has not been read yet.
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stdout, s.cmd.Stderr = stdoutWriter, stderrWriter
	err = s.cmd.Start()
	stdoutWriter.Close()
	stderrWriter.Close()
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	lines, tailed, exited := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { lines <- readLines(stdout, handle) }()
	go func() { _, err := io.Copy(&s.stderr, stderr); tailed <- err }()
	go func() { exited <- s.cmd.Wait() }()
	go func() {
		s.err = s.supervise(lines, exited)
		// A process that tiller left behind may hold the pipes open.
		await(tailed, grace)
		stdout.Close()
		stderr.Close()
		select {
		case s.err = <-s.reason:
		default:
		}
		if s.err == nil {
			s.err = &ServerExited{exitCode(s.cmd.ProcessState), s.stderr.String()}
		}
		close(s.done)
	}()
	return s, nil
}

// supervise waits until the process has ended and its lines are read. It returns the error that
// ended the process, if it was the host's decision.
func (s *server) supervise(lines, exited chan error) error {
	select {
	case <-exited:
		err, _ := await(lines, grace)
		return err
	case err := <-lines:
		// No further line can come: the process is over, or it is of no use.
		s.stdin.Close()
		if err != nil {
			s.kill()
		} else if _, ok := await(exited, grace); ok {
			return nil
		} else {
			s.kill()
		}
		<-exited
		return err
	}
}

// write sends one line. An error is not reported here: the end of the process reports it.
func (s *server) write(command any) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.stdin.Write(append(line, '\n'))
	return nil
}

// close ends tiller: EOF first, and SIGKILL if that is not enough.
func (s *server) close() error {
	s.stdin.Close()
	select {
	case <-s.done:
	case <-time.After(grace):
		s.kill()
		<-s.done
	}
	var exit *ServerExited
	if errors.As(s.err, &exit) && exit.Code == 0 {
		return nil
	}
	return s.err
}

// end kills tiller. What waits for it fails with this error.
func (s *server) end(reason error) {
	select {
	case s.reason <- reason:
	default:
	}
	s.kill()
}

func (s *server) kill() { syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) }

// readLines calls handle with each line. Only LF ends a line, and a line may be long: this is why
// it does not use bufio.Scanner.
func readLines(reader io.Reader, handle func([]byte) error) error {
	buffered := bufio.NewReader(reader)
	for {
		line, err := buffered.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := handle(line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// await receives a value, or gives up after a time.
func await(values chan error, limit time.Duration) (error, bool) {
	select {
	case value := <-values:
		return value, true
	case <-time.After(limit):
		return nil, false
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

func (t *tail) Write(more []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, more...)
	if extra := len(t.text) - stderrTail; extra > 0 {
		t.text = append([]byte(nil), t.text[extra:]...)
	}
	return len(more), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.text)
}
