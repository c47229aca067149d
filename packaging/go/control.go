package kubeproof

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Control is a client of the control endpoints, /kubeproof/v1. A resource is a plural with its group, such as
// deployments.apps; an empty one stands for all resources. An error of a refused request is a *ControlError.
type Control struct {
	url    string
	token  string
	client *http.Client
}

// ControlError is the refusal of a request.
type ControlError struct {
	// Code is the HTTP status.
	Code int
	// Message is the server's.
	Message string
}

func (e *ControlError) Error() string {
	return fmt.Sprintf("%d: %s", e.Code, e.Message)
}

// InjectedFault is a fault that was injected, and maybe lifted since.
type InjectedFault struct {
	Name string `json:"name"`
	// Met is the number of requests that the fault has affected.
	Met int `json:"met"`
}

// ImportResult is what came of an import.
type ImportResult struct {
	// Stored and Unchanged are numbers of objects.
	Stored    int `json:"stored"`
	Unchanged int `json:"unchanged"`
	// LeftOut has the objects whose kind is not served.
	LeftOut  []string `json:"leftOut"`
	Warnings []string `json:"warnings"`
}

// NewControl returns a client for the server at a URL. The token and the authority, a certificate in PEM, may be empty.
func NewControl(url, token string, authority []byte) (*Control, error) {
	// The proxies of the environment are not for a server on loopback.
	transport := &http.Transport{DisableKeepAlives: true}
	if authority != nil {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authority) {
			return nil, errors.New("the authority is not a certificate")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &Control{url: url, token: token, client: &http.Client{Transport: transport}}, nil
}

// Compact forgets past events: a watch from an older version ends with 410 Expired.
func (c *Control) Compact(ctx context.Context, resource string) error {
	return c.post(ctx, "compact", "resource", resource)
}

// BookmarkWatches sends a bookmark to every watch that allows bookmarks.
func (c *Control) BookmarkWatches(ctx context.Context, resource string) error {
	return c.post(ctx, "watches/bookmark", "resource", resource)
}

// CloseWatches ends watches as if their time were up.
func (c *Control) CloseWatches(ctx context.Context, resource string) error {
	return c.post(ctx, "watches/close", "resource", resource)
}

// DropWatches breaks the connections of watches.
func (c *Control) DropWatches(ctx context.Context, resource string) error {
	return c.post(ctx, "watches/drop", "resource", resource)
}

// ExpireWatches ends watches with 410 Expired, so that clients list again.
func (c *Control) ExpireWatches(ctx context.Context, resource string) error {
	return c.post(ctx, "watches/expire", "resource", resource)
}

// Restart does what clients see of a restart: watches break, past events are forgotten.
func (c *Control) Restart(ctx context.Context) error {
	return c.post(ctx, "restart", "", "")
}

// Jump sets the clock forward by a duration such as 10m, or back by a negative one.
func (c *Control) Jump(ctx context.Context, duration string) error {
	return c.post(ctx, "clock", "jump", duration)
}

// Advance lets a duration such as 10h pass at once, with all that happens in it, and returns when that has happened. The
// server has to run under virtual time: Options.Args has "--virtual-time".
func (c *Control) Advance(ctx context.Context, duration string) error {
	return c.post(ctx, "clock", "advance", duration)
}

// Snapshot returns everything that is stored, one JSON object a line, as Options.FromLog reads it.
func (c *Control) Snapshot(ctx context.Context) ([]byte, error) {
	return c.Request(ctx, http.MethodGet, "/kubeproof/v1/snapshot", nil)
}

// Import takes in all objects or none, and those with a uid and a version as they were in their cluster. Replace says
// whether objects that exist are replaced; otherwise they are an error.
func (c *Control) Import(ctx context.Context, objects []any, replace bool) (ImportResult, error) {
	path := "/kubeproof/v1/import"
	if replace {
		path += "?replace=true"
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
	var result ImportResult
	text, err := c.Request(ctx, http.MethodPost, path, list)
	if err != nil {
		return result, err
	}
	err = json.Unmarshal(text, &result)
	return result, err
}

// PutMetric puts a value of a custom or external metric, or takes it away if it has no value: a value whose JSON has the
// form of a scenario's metric step.
func (c *Control) PutMetric(ctx context.Context, value any) error {
	_, err := c.Request(ctx, http.MethodPost, "/kubeproof/v1/metrics", value)
	return err
}

// Inject injects a fault: a value whose JSON has the form of a scenario's fault step.
func (c *Control) Inject(ctx context.Context, fault any) error {
	_, err := c.Request(ctx, http.MethodPost, "/kubeproof/v1/faults", fault)
	return err
}

// Lift lifts the faults of a name.
func (c *Control) Lift(ctx context.Context, name string) error {
	_, err := c.Request(ctx, http.MethodDelete, "/kubeproof/v1/faults/"+url.PathEscape(name), nil)
	return err
}

// Faults returns all faults that were ever injected.
func (c *Control) Faults(ctx context.Context) ([]InjectedFault, error) {
	text, err := c.Request(ctx, http.MethodGet, "/kubeproof/v1/faults", nil)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []InjectedFault }
	err = json.Unmarshal(text, &list)
	return list.Items, err
}

// Request sends a request to any path of the server, with a body of JSON unless it is nil, and returns the body of the response.
func (c *Control) Request(ctx context.Context, method, path string, body any) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		status := struct{ Message string }{Message: string(text)}
		_ = json.Unmarshal(text, &status)
		return nil, &ControlError{Code: response.StatusCode, Message: status.Message}
	}
	return text, nil
}

func (c *Control) createNamespace(ctx context.Context, prefix string) (string, error) {
	type metadata struct {
		Name         string `json:"name,omitempty"`
		GenerateName string `json:"generateName,omitempty"`
	}
	type namespace struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}
	asked := namespace{APIVersion: "v1", Kind: "Namespace", Metadata: metadata{GenerateName: prefix}}
	text, err := c.Request(ctx, http.MethodPost, "/api/v1/namespaces", asked)
	if err != nil {
		return "", err
	}
	var made namespace
	err = json.Unmarshal(text, &made)
	return made.Metadata.Name, err
}

func (c *Control) post(ctx context.Context, endpoint, parameter, value string) error {
	path := "/kubeproof/v1/" + endpoint
	if value != "" {
		path += "?" + url.Values{parameter: {value}}.Encode()
	}
	_, err := c.Request(ctx, http.MethodPost, path, nil)
	return err
}
