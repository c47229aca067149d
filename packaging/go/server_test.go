package kubeproof

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// harnessVariable makes the test program a harness that starts a server, prints its URL, and waits to be killed.
const harnessVariable = "KUBEPROOF_TEST_HARNESS"

func TestMain(m *testing.M) {
	if os.Getenv(harnessVariable) == "" {
		os.Exit(m.Run())
	}
	server, err := Run(context.Background(), alone)
	if err != nil {
		panic(err)
	}
	println(server.URL)
	select {}
}

var alone = Options{Controllers: "none"}

const configMaps = "/api/v1/namespaces/default/configmaps"

type object map[string]any

func configMap(name string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}}
}

func listens(t *testing.T, server string) bool {
	t.Helper()
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", address.Host)
	if err == nil {
		connection.Close()
	}
	return err == nil
}

func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestAServerLivesAsLongAsItsTest(t *testing.T) {
	var server *Server
	t.Run("test", func(t *testing.T) {
		server = Start(t, alone)
		if !listens(t, server.URL) {
			t.Errorf("nothing listens at %s", server.URL)
		}
		// The server says this after it listens.
		waitUntil(t, "the output is lost", func() bool { return strings.Contains(server.Output(), "no controllers") })
	})
	if listens(t, server.URL) {
		t.Error("the server is still there")
	}
	if _, err := os.Stat(server.Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Error("the kubeconfig is still there")
	}
	server.Stop()
}

func TestADeploymentGetsItsPods(t *testing.T) {
	server := Start(t, Options{Nodes: 1})
	deployments := "/apis/apps/v1/namespaces/" + server.Namespace(t) + "/deployments"
	labels := object{"app": "web"}
	containers := []object{{"name": "web", "image": "nginx"}}
	deployment := object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web"},
		"spec": object{
			"replicas": 2,
			"selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{"containers": containers}},
		},
	}
	if _, err := server.Control.Request(t.Context(), http.MethodPost, deployments, deployment); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the pods are not ready", func() bool {
		text, err := server.Control.Request(t.Context(), http.MethodGet, deployments+"/web", nil)
		var found struct{ Status struct{ ReadyReplicas int } }
		return err == nil && json.Unmarshal(text, &found) == nil && found.Status.ReadyReplicas == 2
	})
}

func TestControlWorksOverTLS(t *testing.T) {
	for _, token := range []string{"", "s3cret"} {
		server := Start(t, Options{Controllers: "none", TLS: true, Token: token})
		if _, err := server.Control.Faults(t.Context()); err != nil {
			t.Errorf("token %q: %v", token, err)
		}
		stranger, err := NewControl(server.URL, token, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stranger.Faults(t.Context()); err == nil {
			t.Error("the authority is known without the kubeconfig")
		}
	}
}

func TestControlEndpoints(t *testing.T) {
	ctx := t.Context()
	server := Start(t, alone)
	control := server.Control
	create := func(name string) error {
		_, err := control.Request(ctx, http.MethodPost, configMaps, configMap(name))
		return err
	}
	fault := object{
		"name": "full", "times": 1,
		"on":     object{"verb": "create", "resource": "configmaps"},
		"refuse": object{"code": 429, "reason": "TooManyRequests"},
	}
	if err := control.Inject(ctx, fault); err != nil {
		t.Fatal(err)
	}
	var refusal *ControlError
	if err := create("a"); !errors.As(err, &refusal) || refusal.Code != http.StatusTooManyRequests {
		t.Errorf("%v", err)
	}
	if err := create("a"); err != nil {
		t.Error(err)
	}
	faults, err := control.Faults(ctx)
	if err != nil || len(faults) != 1 || faults[0] != (InjectedFault{Name: "full", Met: 1}) {
		t.Errorf("%v, %v", faults, err)
	}
	if err := control.Lift(ctx, "full"); err != nil {
		t.Error(err)
	}
	if err := control.Lift(ctx, "full"); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "no active fault") {
		t.Errorf("%v", err)
	}
	for _, err := range []error{
		control.Jump(ctx, "10m"), control.Compact(ctx, "configmaps"), control.BookmarkWatches(ctx, ""),
		control.CloseWatches(ctx, "configmaps"), control.DropWatches(ctx, ""),
		control.ExpireWatches(ctx, "configmaps"), control.Restart(ctx),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := control.Advance(ctx, "1h"); err == nil || !strings.Contains(err.Error(), "passes by itself") {
		t.Errorf("real time was advanced: %v", err)
	}
	imported := configMap("imported")
	if result, err := control.Import(ctx, []any{imported}, false); err != nil || result.Stored != 1 {
		t.Errorf("%v, %v", result, err)
	}
	if _, err := control.Import(ctx, []any{imported}, false); err == nil {
		t.Error("an object that exists was taken in")
	}
	if _, err := control.Import(ctx, []any{imported}, true); err != nil {
		t.Error(err)
	}
	snapshot, err := control.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "seed.jsonl")
	if err := os.WriteFile(log, snapshot, 0o600); err != nil {
		t.Fatal(err)
	}
	other := Start(t, Options{FromLog: log})
	if _, err := other.Control.Request(ctx, http.MethodGet, configMaps+"/a", nil); err != nil {
		t.Error(err)
	}
}

func TestValuesOfMetricsArePut(t *testing.T) {
	ctx := t.Context()
	control := Start(t, Options{Controllers: "none", Args: []string{"--metrics", "all"}}).Control
	for _, value := range []string{"30", ""} {
		metric := object{"name": "queue_length"}
		if value != "" {
			metric["value"] = value
		}
		if err := control.PutMetric(ctx, metric); err != nil {
			t.Fatal(err)
		}
		text, err := control.Request(ctx, http.MethodGet, "/kubeproof/v1/metrics", nil)
		if err != nil || strings.Contains(string(text), "queue_length") != (value != "") {
			t.Errorf("%s, %v", text, err)
		}
	}
}

func TestAServerThatDoesNotListenIsAnError(t *testing.T) {
	silent := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for words, options := range map[string]Options{
		`no controller "nobody"`: {Controllers: "nobody"},
		"deadline":               {Program: silent, StartTimeout: 200 * time.Millisecond},
		"cannot run kubeproof":   {Program: silent + "-none"},
	} {
		server, err := Run(t.Context(), options)
		if err == nil {
			server.Stop()
			t.Fatalf("it listens, but should say %q", words)
		}
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v has no %q", err, words)
		}
	}
}

func TestTheProgramIsFound(t *testing.T) {
	path, cache := t.TempDir(), t.TempDir()
	t.Setenv(programVariable, "")
	t.Setenv("PATH", path)
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	if found, err := FindProgram(); err == nil {
		t.Errorf("found %s", found)
	}
	root, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "named")
	inCache := filepath.Join(root, "kubeproof", "bin", "kubeproof")
	onPath := filepath.Join(path, "kubeproof")
	// Each is found before those above it.
	for _, program := range []string{inCache, onPath, named} {
		if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if program == named {
			t.Setenv(programVariable, named)
		}
		if found, err := FindProgram(); err != nil || found != program {
			t.Errorf("%s, %v instead of %s", found, err, program)
		}
	}
	t.Setenv(programVariable, filepath.Join(path, "none"))
	if _, err := FindProgram(); err == nil {
		t.Error("a named program has to be there")
	}
}

func TestNoServerOutlivesAHarnessThatIsKilled(t *testing.T) {
	harness := exec.Command(os.Args[0])
	harness.Env = append(os.Environ(), harnessVariable+"=1")
	stderr, err := harness.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	server := strings.TrimSpace(line)
	if err != nil || !listens(t, server) {
		t.Fatalf("%q, %v", line, err)
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = harness.Wait()
	waitUntil(t, "the server is still there", func() bool { return !listens(t, server) })
}
