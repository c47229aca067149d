// Package kubeproof runs an in-memory Kubernetes API server with simulated nodes and controllers for a test.
//
//	func TestOperator(t *testing.T) {
//		server := kubeproof.Start(t, kubeproof.Options{Nodes: 1})
//		config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
//		…
//	}
package kubeproof

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	announcement = "listening on "
	stopTime     = 10 * time.Second
)

// Options are those of a server. The zero value is a server without nodes that runs all controllers.
type Options struct {
	// Nodes is the number of simulated nodes, on which pods run.
	Nodes int
	// Controllers are all, none, or names between commas. Empty means all, and none with FromLog.
	Controllers string
	// Load has manifests, or directories of them, that are created before the server listens.
	Load []string
	// FromLog is a log or snapshot with whose state the server starts.
	FromLog string
	// TLS serves over TLS.
	TLS bool
	// Token is the bearer token to ask for.
	Token string
	// Pace is fast, or real for the durations of a cluster. Empty means fast.
	Pace string
	// Args are further flags of kubeproof serve.
	Args []string
	// Program is used instead of the one that FindProgram finds.
	Program string
	// StartTimeout is the longest time that a start may take. Zero means a minute.
	StartTimeout time.Duration
}

// Server is a server in memory, on a free port of loopback. It ends with Stop, and when this process ends or is killed.
type Server struct {
	// URL is where the server listens.
	URL string
	// Kubeconfig is the path of a kubeconfig for the administrator. It goes with the server.
	Kubeconfig string
	// Control is the client of the control endpoints: faults, clock, watches, state.
	Control *Control

	command   *exec.Cmd
	directory string
	ended     chan struct{}
	stop      sync.Once
}

// Start starts a server that is stopped when the test and its subtests have ended. The test fails at once if the server does
// not listen.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	server, err := Run(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// Run starts a server and returns when it listens. The caller stops it. The context limits the start alone. An error has the
// server's own words.
func Run(ctx context.Context, options Options) (*Server, error) {
	program := options.Program
	if program == "" {
		found, err := FindProgram()
		if err != nil {
			return nil, err
		}
		program = found
	}
	directory, err := os.MkdirTemp("", "kubeproof-")
	if err != nil {
		return nil, err
	}
	server := &Server{
		Kubeconfig: filepath.Join(directory, "kubeconfig.yaml"),
		directory:  directory,
		ended:      make(chan struct{}),
	}
	if err := server.start(ctx, program, options); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	return server, nil
}

// Stop ends the server and deletes its kubeconfig. It may be called more than once.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.end()
		_ = os.RemoveAll(s.directory)
	})
}

// Output returns what the server has written to standard error.
func (s *Server) Output() string {
	text, _ := os.ReadFile(s.stderr())
	return string(text)
}

// Namespace creates a namespace for a test, which is deleted after it, and returns its name.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	name, err := s.Control.createNamespace(context.Background(), "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := s.Control.Request(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+name, nil)
		if err != nil {
			t.Errorf("cannot delete the namespace: %v", err)
		}
	})
	return name
}

func (s *Server) start(ctx context.Context, program string, options Options) error {
	stderr, err := os.Create(s.stderr())
	if err != nil {
		return err
	}
	defer stderr.Close()
	s.command = exec.Command(program, append([]string{"serve", "--kubeconfig-out", s.Kubeconfig}, options.flags()...)...)
	s.command.Stderr = stderr
	// A Ctrl-C of the terminal ends the tests, which end the server.
	s.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("cannot run kubeproof: %w", err)
	}
	line := make(chan string, 1)
	go func() {
		// The end of the pipe gives an empty line.
		text, _ := bufio.NewReader(stdout).ReadString('\n')
		line <- text
	}()
	timeout := options.StartTimeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var text string
	select {
	case text = <-line:
	case <-ctx.Done():
	}
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	url, listens := strings.CutPrefix(strings.TrimSpace(text), announcement)
	if !listens {
		s.end()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("kubeproof does not listen: %w: %s", err, strings.TrimSpace(s.Output()))
		}
		return fmt.Errorf("kubeproof has ended: %s", strings.TrimSpace(s.Output()))
	}
	authority, err := s.authority()
	if err == nil {
		s.URL = url
		s.Control, err = NewControl(url, options.Token, authority)
	}
	if err != nil {
		s.end()
	}
	return err
}

// end ends the process, which has been started.
func (s *Server) end() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(stopTime):
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

func (s *Server) stderr() string {
	return filepath.Join(s.directory, "stderr")
}

var authorityInKubeconfig = regexp.MustCompile(`certificate-authority-data:(?: >-)?\s+(\S+)`)

// authority returns the certificate in the kubeconfig, if the server has one.
func (s *Server) authority() ([]byte, error) {
	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		return nil, err
	}
	found := authorityInKubeconfig.FindSubmatch(text)
	if found == nil {
		return nil, nil
	}
	return base64.StdEncoding.DecodeString(string(found[1]))
}

func (o Options) flags() []string {
	flags := []string{"--exit-with-parent", "--nodes", strconv.Itoa(o.Nodes)}
	value := func(flag, value string) {
		if value != "" {
			flags = append(flags, flag, value)
		}
	}
	value("--controllers", o.Controllers)
	for _, manifest := range o.Load {
		value("--load", manifest)
	}
	value("--from-log", o.FromLog)
	if o.TLS {
		flags = append(flags, "--tls")
	}
	value("--token", o.Token)
	value("--pace", o.Pace)
	return append(flags, o.Args...)
}
