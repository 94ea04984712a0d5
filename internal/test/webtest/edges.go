// Package webtest holds the routes of every HTTP API to the same rules (contract,
// section 1): methods, bearer headers, content types, bodies, names of fields, error
// bodies. The routes come from the tables, so that a new one is held to them too.
package webtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gatehouse/internal/metric"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/kit"
)

// Table is an API with all that its routes need to answer.
type Table struct {
	Handler http.Handler
	Routes  []kit.Route
	Metrics *metric.Registry // of the kit behind Handler

	Bearer string                                // an access token that every guard admits; "": the API has none
	Peer   func(context.Context) context.Context // of a connection; nil: nothing to add
	Path   *strings.Replacer                     // fills in the parameters of patterns
	Bodies map[string]string                     // of each route that reads JSON, by method and pattern
}

// edges runs the cases on a table.
type edges struct {
	Table
	t      *testing.T
	client *http.Client
	base   string
	sent   int
}

// request is one request of a case.
type request struct {
	method, path  string
	authorization []string
	contentType   []string
	body          string
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string // of a stream: ""
}

// Check runs every case on every route.
func (table Table) Check(t *testing.T) {
	server := httptest.NewUnstartedServer(table.Handler)
	if table.Peer != nil {
		server.Config.BaseContext = func(net.Listener) context.Context { return table.Peer(context.Background()) }
	}
	server.Start()
	defer server.Close()
	client := server.Client()
	client.Timeout = await.Patience
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	e := &edges{Table: table, client: client, base: server.URL}
	for _, rt := range table.Routes {
		t.Run(rt.Method+" "+rt.Pattern, func(t *testing.T) {
			e.t = t
			e.path(rt)
			e.methods(rt)
			e.head(rt)
			e.authorization(rt)
			e.size(rt)
			if rt.JSON {
				e.contentTypes(rt)
				e.objects(rt)
				e.names(rt)
			}
		})
	}
	e.t = t
	e.counted()
}

// good is a request that the route has.
func (e *edges) good(rt kit.Route) request {
	r := request{method: rt.Method, path: e.Path.Replace(strings.TrimSuffix(rt.Pattern, "{$}"))}
	if r.method == "" {
		r.method = http.MethodGet
	}
	if e.Bearer != "" {
		r.authorization = []string{"Bearer " + e.Bearer}
	}
	return r
}

// path holds the neighbours of a path to 404.
func (e *edges) path(rt kit.Route) {
	r := e.good(rt)
	for _, path := range []string{"/." + r.path, "/" + r.path, strings.TrimSuffix(r.path, "/") + "/no/such/path", strings.ToUpper(r.path) + "X"} {
		got := e.do(request{method: r.method, path: path, authorization: r.authorization})
		e.want(got, http.StatusNotFound, "Not found")
		if got.header.Get("Location") != "" {
			e.t.Errorf("%s redirects to %s", path, got.header.Get("Location"))
		}
	}
}

// methods holds what a path does not have to 405, also without a token.
func (e *edges) methods(rt kit.Route) {
	if rt.Method == "" {
		return
	}
	var allow []string
	for _, other := range e.Routes {
		if other.Pattern == rt.Pattern {
			allow = append(allow, other.Method)
			if other.Method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	slices.Sort(allow)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get"} {
		if slices.Contains(allow, method) {
			continue
		}
		got := e.do(request{method: method, path: e.good(rt).path})
		e.want(got, http.StatusMethodNotAllowed, "Method not allowed")
		if got.header.Get("Allow") != strings.Join(allow, ", ") {
			e.t.Errorf("%s: Allow is %q, want %q", method, got.header.Get("Allow"), allow)
		}
	}
}

// head holds HEAD to what GET answers, without the body.
func (e *edges) head(rt kit.Route) {
	if rt.Method != http.MethodGet {
		return
	}
	r := e.good(rt)
	get := e.do(r)
	r.method = http.MethodHead
	head := e.do(r)
	if head.status != get.status || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
		e.t.Errorf("HEAD answers %d %s, GET %d %s", head.status, head.header.Get("Content-Type"), get.status, get.header.Get("Content-Type"))
	}
}

// authorization holds a route that wants a token to the one way to send it.
func (e *edges) authorization(rt kit.Route) {
	r := e.good(rt)
	if e.Bearer == "" || rt.Guard == nil {
		return
	}
	r.authorization = nil
	if e.do(r).status != http.StatusUnauthorized {
		return // its guard wants none
	}
	bearer := "Bearer " + e.Bearer
	for _, headers := range [][]string{
		{bearer, bearer}, {bearer, "Basic eA=="}, {"Basic eA==", bearer}, {"Basic " + e.Bearer}, {e.Bearer}, {"Bearer"}, {""}, {bearer + "x"}, {bearer + ", " + bearer},
	} {
		r.authorization = headers
		got := e.do(r)
		e.want(got, http.StatusUnauthorized, "Token is invalid")
		if got.header.Get("WWW-Authenticate") != "Bearer" {
			e.t.Errorf("%q: no challenge: %v", headers, got.header)
		}
	}
}

// size holds a route to its largest body.
func (e *edges) size(rt kit.Route) {
	most := rt.MaxBody
	if most == 0 {
		most = kit.MaxBody
	}
	if rt.Upload {
		return // it may be larger than the memory of a test
	}
	r := e.good(rt)
	r.contentType, r.body = []string{"application/json"}, strings.Repeat(" ", int(most)+1)
	e.want(e.do(r), http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is too large: %d KiB at most", most>>10))
}

// contentTypes holds a route to JSON in UTF-8.
func (e *edges) contentTypes(rt kit.Route) {
	r := e.good(rt)
	r.body = "{"
	const malformed, other = "The body is not a JSON object", "Content-Type must be application/json"
	for _, c := range []struct {
		types   []string
		message string
	}{
		{[]string{"application/json"}, malformed},
		{[]string{"Application/JSON"}, malformed},
		{[]string{"application/json; charset=utf-8"}, malformed},
		{[]string{`application/json;charset="UTF-8"`}, malformed},
		{[]string{"application/json; charset=latin1"}, other},
		{[]string{"application/json; charset"}, other},
		{[]string{"application/problem+json"}, other},
		{[]string{"application/x-www-form-urlencoded"}, other},
		{[]string{"text/plain"}, other},
		{[]string{";"}, other},
		{nil, other},
		{[]string{"application/json", "application/json"}, other},
	} {
		r.contentType = c.types
		status := http.StatusUnsupportedMediaType
		if c.message == malformed {
			status = http.StatusBadRequest
		}
		e.want(e.do(r), status, c.message)
	}
}

// objects holds a route to one JSON object.
func (e *edges) objects(rt kit.Route) {
	r := e.good(rt)
	r.contentType = []string{"application/json"}
	for _, body := range []string{
		" ", "a=b", "{", "{}}", "{}{}", "{} x", "null", "[{}]", `"x"`, "1", "{/**/}", "{'a':1}", "\ufeff{}", "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", "{}\x00", `{"a":"\u12"}`,
	} {
		r.body = body
		e.want(e.do(r), http.StatusBadRequest, "The body is not a JSON object")
	}
}

// names holds a route to the exact names of its fields: those in another case count as
// unknown, which is an error or as if they were absent.
func (e *edges) names(rt kit.Route) {
	body, ok := e.Bodies[rt.Method+" "+rt.Pattern]
	if !ok {
		e.t.Errorf("the test has no body for %s %s", rt.Method, rt.Pattern)
		return
	}
	r := e.good(rt)
	r.contentType = []string{"application/json"}
	r.body = "{}"
	empty := e.do(r)
	r.body = regexp.MustCompile(`"\w+":`).ReplaceAllStringFunc(body, strings.ToUpper)
	if r.body == body {
		e.t.Errorf("%s has no field", body)
	}
	if got := e.do(r); got.status != http.StatusBadRequest && (got.status != empty.status || got.body != empty.body) {
		e.t.Errorf("%s: answered %d %s", r.body, got.status, got.body)
	}
	first := regexp.MustCompile(`"(\w+)":`).FindStringSubmatch(body)
	r.body = strings.Replace(body, "{", "{"+first[0]+"null,", 1)
	e.want(e.do(r), http.StatusBadRequest, fmt.Sprintf("The field %q is repeated", first[1]))
	r.body = body
	if got := e.do(r); got.status == http.StatusBadRequest || got.status == http.StatusUnsupportedMediaType {
		e.t.Errorf("%s: answered %d %s", r.body, got.status, got.body)
	}
}

// counted holds each request to be counted once.
func (e *edges) counted() {
	e.t.Helper()
	// Streams end a moment after their clients have disconnected.
	await.Until(e.t, "every request is counted", func() bool { return e.requests() >= e.sent })
	if n := e.requests(); n != e.sent {
		e.t.Errorf("%d requests were counted as %d", e.sent, n)
	}
}

// requests returns how many requests are counted.
func (e *edges) requests() (sum int) {
	var text bytes.Buffer
	e.Metrics.Write(&text)
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "gatehouse_http_requests_total{") {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
			if err != nil {
				e.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// do sends a request and holds the answer to what every answer must be.
func (e *edges) do(r request) answer {
	e.t.Helper()
	e.sent++
	req, err := http.NewRequestWithContext(e.t.Context(), r.method, e.base+r.path, strings.NewReader(r.body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header["Authorization"], req.Header["Content-Type"] = r.authorization, r.contentType
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := answer{status: resp.StatusCode, header: resp.Header}
	file := resp.Header.Get("Content-Disposition") != "" // to its end: of a backup one is sent at a time
	if file || resp.Header.Get("Content-Type") == "application/json" {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			e.t.Fatalf("%s %s: %v", r.method, r.path, err)
		}
		got.body = string(body)
	}
	e.checkAny(r, got)
	return got
}

// checkAny holds an answer to what every answer must be.
func (e *edges) checkAny(r request, got answer) {
	e.t.Helper()
	if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
		e.t.Errorf("%s %s: headers %v lack no-store or nosniff", r.method, r.path, got.header)
	}
	switch {
	case r.method == http.MethodHead && got.body != "":
		e.t.Errorf("%s %s has a body: %s", r.method, r.path, got.body)
	case r.method != http.MethodHead && got.header.Get("Content-Type") == "application/json" && !strings.HasSuffix(got.body, "\n"):
		e.t.Errorf("%s %s: %q does not end with a newline", r.method, r.path, got.body)
	case r.method != http.MethodHead && got.status >= http.StatusBadRequest:
		var fields map[string]string
		if err := json.Unmarshal([]byte(got.body), &fields); err != nil || len(fields) != 1 || fields["message"] == "" {
			e.t.Errorf("%s %s: error body %q, want exactly one field, message", r.method, r.path, got.body)
		}
	}
}

// want compares the status and the message of an error.
func (e *edges) want(got answer, status int, message string) {
	e.t.Helper()
	text, _ := json.Marshal(message)
	body := fmt.Sprintf("{\"message\":%s}\n", text)
	if got.status != status || (got.body != body && got.body != "") {
		e.t.Errorf("answered %d %s, want %d %s", got.status, got.body, status, body)
	}
}
