package httpapi_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/test/await"
)

// rawCase is bytes that are no good request, and the status that they get; 0 is for
// a connection that is closed without a word.
type rawCase struct {
	name, bytes string
	status      int
}

const (
	get       = "GET /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n"
	login     = "POST /v1/auth/login HTTP/1.1\r\nHost: 192.0.2.1\r\nContent-Type: application/json\r\n"
	readBytes = "GET /v1/stations/" + stationToken + " HTTP/1.1\r\nHost: 192.0.2.1\r\n"
)

var rawCases = []rawCase{
	{"nothing", "", 0},
	{"one byte", "G", 400},
	{"empty lines", "\r\n\r\n", 400},
	{"no request", "hello\r\n\r\n", 400},
	{"binary", "\x00\x01\x02\xff\xfe\r\n\r\n", 400},
	{"a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
	{"an MQTT connect", "\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00\r\n\r\n", 400},
	{"request line of one word", "GET\r\n\r\n", 400},
	{"request line of two words", "GET /healthz\r\n\r\n", 400},
	{"request line of four words", "GET /healthz HTTP/1.1 x\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"no method", " /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"method that is no token", "G(T /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"no protocol", "GET /healthz FTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"HTTP/0.9", "GET /healthz HTTP/0.9\r\nHost: 192.0.2.1\r\n\r\n", 505},
	{"HTTP/2.0", "GET /healthz HTTP/2.0\r\nHost: 192.0.2.1\r\n\r\n", 505},
	{"HTTP/9.9", "GET /healthz HTTP/9.9\r\nHost: 192.0.2.1\r\n\r\n", 505},
	{"HTTP/1.1x", "GET /healthz HTTP/1.1x\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404},
	{"path without slash", "GET healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"path with a bad escape", "GET /v1/%zz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"path with a control character", "GET /\x01 HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"path with NUL", "GET /\x00 HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"path of raw bytes", "GET /v1/stations/\xff\xfe HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 401},
	{"absolute target", "GET http://elsewhere.test/healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 421},
	{"absolute target without a path", "GET http://elsewhere.test HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 421},
	{"absolute target that is no URL", "GET http://[::1 HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"star", "GET * HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 404},
	{"OPTIONS star", "OPTIONS * HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 404},
	{"CONNECT", "CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: 192.0.2.1:443\r\n\r\n", 404},
	{"CONNECT with a path", "CONNECT /v1/auth/login HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 405},
	{"no host", "GET /healthz HTTP/1.1\r\n\r\n", 400},
	{"two hosts", "GET /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\nHost: 192.0.2.1\r\n\r\n", 400},
	{"host that is none", "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"header without colon", get + "nothing\r\n\r\n", 400},
	{"header name with a space", get + "A : b\r\n\r\n", 400},
	{"header name empty", get + ": b\r\n\r\n", 400},
	{"header value with NUL", get + "A: \x00\r\n\r\n", 400},
	{"header folded first", "GET /healthz HTTP/1.1\r\n Host: 192.0.2.1\r\n\r\n", 400},
	{"header too large", get + "A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431},
	{"headers too many", get + strings.Repeat("A: a\r\n", 8000) + "\r\n", 431},
	{"target too large", "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 431},
	{"header cut off", get + "A: b", 400},
	{"transfer coding unknown", login + "Transfer-Encoding: gzip\r\n\r\n", 501},
	{"transfer coding twice", login + "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
	{"transfer coding in two headers", login + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
	{"length and chunks", login + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{"length negative", login + "Content-Length: -1\r\n\r\n", 400},
	{"length no number", login + "Content-Length: x\r\n\r\n", 400},
	{"length with a sign", login + "Content-Length: +2\r\n\r\n{}", 400},
	{"length too long for a number", login + "Content-Length: 99999999999999999999\r\n\r\n", 400},
	{"two lengths", login + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", 400},
	{"huge length", login + "Content-Length: 9223372036854775807\r\n\r\n{}", 413},
	{"body cut off", login + "Content-Length: 100\r\n\r\n{", 400},
	{"body of a stream cut off", "GET /local/v1/stations/" + stationToken + "/events HTTP/1.1\r\nHost: 192.0.2.1\r\nAuthorization: Bearer " + accessToken + "\r\nContent-Length: 10\r\n\r\n{", 400},
	{"chunk size no number", login + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
	{"chunk size huge", login + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n0\r\n\r\n", 400},
	{"chunk without end", login + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n", 400},
	{"chunks cut off", login + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", 400},
	{"chunks without number of bytes", login + "Transfer-Encoding: chunked\r\n\r\n\r\n", 400},
	{"expectation unknown", login + "Expect: a-miracle\r\nContent-Length: 2\r\n\r\n{}", 417},
	{"expectation, body too large", login + "Expect: 100-continue\r\nContent-Length: 99999\r\n\r\n", 413},
	{"upgrade to websocket", readBytes + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n", 401},
	{"upgrade to HTTP/2", readBytes + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", 401},
	{"bare line feeds", strings.ReplaceAll(readBytes+"\r\n", "\r", ""), 401},
	{"HTTP/1.0 without a host", "GET /v1/stations/x HTTP/1.0\r\n\r\n", 401},
	{"method in lower case", "get /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", 405},
	{"body where there is none", readBytes + "Content-Length: 5\r\n\r\nhello", 401},
	{"smuggled in a body", readBytes + "Content-Length: 40\r\n\r\nGET /v1/x HTTP/1.1\r\nHost: 192.0.2.1\r\nA: bbbbbbbbb", 401},
	{"bad second request", get + "\r\n" + "nonsense\r\n\r\n", 200},
}

// Whatever bytes come, the answer is a proper refusal or none, and the gateway
// serves on.
func TestRaw(t *testing.T) {
	w := newWorld(t)
	for _, c := range rawCases {
		t.Run(c.name, func(t *testing.T) {
			answer := w.raw(t, c.bytes)
			resp := readAnswer(t, answer)
			switch {
			case resp == nil && c.status == 0:
			case resp != nil && resp.status == 503 && resp.body == `{"message":"Request cancelled"}`+"\n":
				// The end of the client came before the turn of a whole request.
			case resp == nil || resp.status != c.status:
				t.Fatalf("got %q, want status %d", answer, c.status)
			case resp.status >= 400 && resp.header.Get("Cache-Control") != "": // else net/http has answered by itself
				checkAny(t, "GET", *resp)
			}
			w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}).want(t, 200, stationJSON)
		})
	}
	if len(rawCases) < 45 {
		t.Errorf("only %d cases", len(rawCases))
	}
	if logs := w.logs.String(); strings.Contains(logs, "panic") || strings.Contains(logs, "ERROR") {
		t.Errorf("the log has %s", logs)
	}
}

// raw writes bytes, says that no more come, and returns all that comes back.
func (w *world) raw(t testing.TB, text string) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(await.Deadline())
	_, _ = io.WriteString(conn, text) // the gateway may have hung up before the end
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	return answer
}

// readAnswer returns the first response in answer, or nil.
func readAnswer(t testing.TB, answer []byte) *response {
	t.Helper()
	if len(answer) == 0 {
		return nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		t.Fatalf("%q is no response: %v", answer, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: reading the body: %v", answer, err)
	}
	return &response{resp.StatusCode, resp.Header, string(body)}
}

// Requests on one connection are answered one by one, and a body never becomes a
// request.
func TestRaw_pipelined(t *testing.T) {
	w := newWorld(t)
	read := readBytes + "Authorization: Bearer " + accessToken + "\r\n"
	answer := w.raw(t, read+"\r\n"+read+"Content-Length: 25\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n"+get+"Connection: close\r\n\r\n")
	text := bufio.NewReader(bytes.NewReader(answer))
	for i, want := range []string{stationJSON, stationJSON, `{"status":"ok"}`} {
		resp, err := http.ReadResponse(text, nil)
		if err != nil {
			t.Fatalf("response %d: %v in %q", i, err, answer)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || string(body) != want+"\n" {
			t.Errorf("response %d: %d %s", i, resp.StatusCode, body)
		}
	}
	if _, err := text.ReadByte(); err != io.EOF {
		t.Errorf("more than three responses: %q", answer)
	}
}

// A client that never ends its header is given up.
func TestRaw_headerTimeout(t *testing.T) {
	inBubble(t, func(_ *world, listener pipes) {
		conn, begun := listener.dial(), time.Now()
		defer conn.Close()
		_, _ = io.WriteString(conn, get)
		if answer, err := io.ReadAll(conn); err != nil || len(answer) != 0 || time.Since(begun) > 10*time.Second {
			t.Errorf("got %q after %v, %v", answer, time.Since(begun), err)
		}
	})
}

// A client that waits for leave to send its body gets the refusal at once: the body of a
// request that is refused is not waited for.
func TestRaw_expectation_refused(t *testing.T) {
	w := newWorldWith(t, allOptions(), nil, func(s *http.Server) { s.ReadTimeout = 0 })
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(await.Deadline())
	_, _ = io.WriteString(conn, "POST /v1/stations/x/locks/1/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("answered %s", resp.Status)
	}
}
